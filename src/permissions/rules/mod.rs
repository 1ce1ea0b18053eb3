//! Rules: what users and projects say of tool calls beforehand.
//!
//! Pure. A rule for `bash` names the first words of a command. A command line is taken apart by [`super::shell`], and a
//! rule that allows holds only if each of its commands is allowed and nothing else in it does harm; a rule that denies
//! holds if one of them is meant, also behind programs that run other programs. A rule for a tool of files names places by
//! a pattern. What cannot be told is asked about.

mod arguments;
mod harmless;
mod line;
mod named;
mod place;
mod programs;
mod rule;
mod suggest;
mod text;
mod wrapper;

pub use agentd_protocol::methods::{Rule, RuleAction, RuleScope};

pub use self::line::{Judgement, judge_line};
pub use self::rule::{Meant, Prepared, RuleFault, Rules, WrongRule};
pub use self::text::{add_rule, parse_rules, remove_rule};

#[cfg(test)]
mod tests;
