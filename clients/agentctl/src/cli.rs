//! The command line: what can be typed, and nothing of what it does.

use std::path::PathBuf;

use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::{IfBusy, Mode, RuleAction};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::session_ref::SessionRef;

mod settings;

pub(crate) use settings::{AuthAction, AuthArgs, ConfigAction, ConfigArgs, ConfigShowArgs};

/// Talks to agentd, which hosts coding-agent sessions.
///
/// Sessions are named by their id, by the last characters of it (as `ls` shows them), or by @last (used last) and
/// @cwd (used last in this directory). A run belongs to the daemon: leaving a command never stops it.
#[derive(Debug, Parser)]
#[command(
    name = "agentctl",
    version = agentd_protocol::version::LONG_VERSION,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, 1 error, 2 usage, 3 approval needed or denied, 4 aborted, 5 provider, 6 turns or budget, 75 no daemon.",
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// Print JSON: results as one line, events as one line each
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The verbs, those that matter first.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Ask in a new session of this directory and print the answer
    Run(RunArgs),
    /// Watch a session live and type into it
    Attach(AttachArgs),
    /// Send a message to a session: a prompt, or steering while it runs
    Send(SendArgs),
    /// List sessions, latest use first
    Ls(LsArgs),
    /// List the questions of sessions that wait for an answer
    Approvals(ApprovalsArgs),
    /// Answer a question with yes
    Approve(ApproveArgs),
    /// Answer a question with no
    Deny(DenyArgs),
    /// Trust a folder, so that what it brings along (instructions, settings) is loaded
    Trust(TrustArgs),
    /// Forget what was decided about a folder
    Untrust(UntrustArgs),
    /// List, change and try the rules for tool calls
    Rules(RulesArgs),
    /// Print a session's events as they come
    Tail(TailArgs),
    /// Stop the run of a session and wait until it has settled
    Abort(SessionsArgs),
    /// Wait until sessions are idle; the exit code tells how their runs ended
    Wait(SessionsArgs),
    /// List the models that can be used
    Models(ModelsArgs),
    /// Keep keys of providers, and tell where they come from
    Auth(AuthArgs),
    /// Show and change settings, and tell which place says what holds
    Config(ConfigArgs),
    /// Start, stop or look at the daemon
    Daemon(DaemonArgs),
    /// Call any method of the wire
    Rpc(RpcArgs),
}

/// What a message is made of.
#[derive(Args, Debug, Default)]
pub(crate) struct MessageArgs {
    /// The text; an argument @FILE stands for that file's content, and piped input comes before the text
    #[arg(value_name = "TEXT|@FILE")]
    pub(crate) words: Vec<String>,
    /// An image (PNG, JPEG, GIF or WebP) to send along; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
}

/// Arguments of `run`.
#[derive(Args, Debug, Default)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) message: MessageArgs,
    /// Print the final answer only, and nothing of what leads to it
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print the session's id and leave; the run goes on
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Go on in the session used last in this directory
    #[arg(short, long = "continue")]
    pub(crate) continue_last: bool,
    /// The model: PROVIDER/ID or PROVIDER/ID:LEVEL, an id that only one provider has, or "demo"
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How much the model is to think: off, minimal, low, medium, high or xhigh
    #[arg(long, value_name = "LEVEL", value_parser = thinking_level)]
    pub(crate) thinking: Option<ThinkingLevel>,
    /// Tools it may use, such as "read,bash"; "" for none
    #[arg(long, value_name = "NAME,…", conflicts_with = "continue_last")]
    pub(crate) tools: Option<String>,
    /// Most turns of one run
    #[arg(long, value_name = "N", conflicts_with = "continue_last")]
    pub(crate) max_turns: Option<u32>,
    /// Name of the session
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Set something for this session, whatever files and variables say; `config show` lists the keys
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "continue_last")]
    pub(crate) set: Vec<String>,
}

/// Arguments of `attach`.
#[derive(Args, Debug)]
pub(crate) struct AttachArgs {
    /// The session
    #[arg(default_value = "@cwd")]
    pub(crate) session: SessionRef,
    /// Only watch
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Messages of the past to show first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) history: usize,
}

/// Arguments of `send`.
#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// The session
    pub(crate) session: SessionRef,
    #[command(flatten)]
    pub(crate) message: MessageArgs,
    /// What to do while it runs: inject after the current turn, send at the end of the run, or refuse
    #[arg(long, value_enum, default_value_t = Busy::Steer)]
    pub(crate) if_busy: Busy,
    /// Stay until the session is idle, and print what it says
    #[arg(short, long)]
    pub(crate) wait: bool,
}

/// What to do with a message while a run is going on.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Busy {
    /// Inject it after the current turn.
    Steer,
    /// Send it at the end of the run.
    FollowUp,
    /// Refuse it.
    Reject,
}

impl From<Busy> for IfBusy {
    fn from(busy: Busy) -> Self {
        match busy {
            Busy::Steer => Self::Steer,
            Busy::FollowUp => Self::FollowUp,
            Busy::Reject => Self::Reject,
        }
    }
}

/// Arguments of `ls`.
#[derive(Args, Debug, Default)]
pub(crate) struct LsArgs {
    /// Every session instead of the latest 20
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// Only sessions of this directory (the current one when no DIR is given)
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) cwd: Option<PathBuf>,
    /// Only sessions whose name or first message contains this
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Most sessions
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Stay, and show what changes as it does
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Arguments of `approvals`.
#[derive(Args, Debug, Default)]
pub(crate) struct ApprovalsArgs {
    /// Stay, and print each further question when it is asked
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Arguments of `approve`.
#[derive(Args, Debug)]
pub(crate) struct ApproveArgs {
    /// The question: its id, or the last characters of it, as `approvals` shows them
    #[arg(value_name = "ID")]
    pub(crate) approval: String,
    /// Do not ask again in this session
    #[arg(long)]
    pub(crate) session: bool,
    /// A remark for the other clients
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `deny`.
#[derive(Args, Debug)]
pub(crate) struct DenyArgs {
    /// The question: its id, or the last characters of it, as `approvals` shows them
    #[arg(value_name = "ID")]
    pub(crate) approval: String,
    /// A remark for the other clients
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// Arguments of `trust`.
#[derive(Args, Debug, Default)]
pub(crate) struct TrustArgs {
    /// The folder; what is decided holds for those below it too
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Decide that it is not trusted, and is not asked about again
    #[arg(long)]
    pub(crate) no: bool,
    /// List what was decided
    #[arg(long, conflicts_with_all = ["path", "no"])]
    pub(crate) list: bool,
}

/// Arguments of `untrust`.
#[derive(Args, Debug, Default)]
pub(crate) struct UntrustArgs {
    /// The folder
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
}

/// Arguments of `rules`.
#[derive(Args, Debug)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) action: Option<RulesAction>,
}

/// What `rules` does; without any of them it lists.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesAction {
    /// List the rules for this folder, and what is wrong in their files
    List,
    /// Add a rule
    Add(RuleArgs),
    /// Take a rule out
    Remove(RuleArgs),
    /// Tell what would become of a command line, by which rules; nothing is run
    Test(TestRuleArgs),
}

/// Arguments of `rules add` and `rules remove`.
#[derive(Args, Debug)]
pub(crate) struct RuleArgs {
    /// allow, ask or deny
    #[arg(value_parser = parse_action)]
    pub(crate) action: RuleAction,
    /// For bash: the first words of a command. With --tool: a pattern of paths
    #[arg(value_name = "WORD", allow_hyphen_values = true, trailing_var_arg = true)]
    pub(crate) words: Vec<String>,
    /// A tool other than bash
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// In the file of this folder's project instead of the user's
    #[arg(long)]
    pub(crate) project: bool,
}

/// Arguments of `rules test`.
#[derive(Args, Debug)]
pub(crate) struct TestRuleArgs {
    /// The command line, as one word or as several
    #[arg(value_name = "COMMAND", required = true, allow_hyphen_values = true, trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
    /// In which mode: read-only, ask, auto-edit or full; ask when left out
    #[arg(long, value_parser = parse_mode)]
    pub(crate) mode: Option<Mode>,
}

fn parse_mode(word: &str) -> Result<Mode, String> {
    Mode::from_word(word).ok_or_else(|| "read-only, ask, auto-edit or full".to_owned())
}

fn parse_action(word: &str) -> Result<RuleAction, String> {
    let all = [RuleAction::Allow, RuleAction::Ask, RuleAction::Deny];
    all.into_iter().find(|action| action.word() == word).ok_or_else(|| "allow, ask or deny".to_owned())
}

/// Arguments of `tail`.
#[derive(Args, Debug)]
pub(crate) struct TailArgs {
    /// The session
    #[arg(default_value = "@cwd")]
    pub(crate) session: SessionRef,
    /// Begin after this event; `tail` prints the position on stderr when it begins and ends
    #[arg(long, value_name = "EPOCH:SEQ", value_parser = parse_since)]
    pub(crate) since: Option<(String, u64)>,
    /// Merge deltas that come close together
    #[arg(long)]
    pub(crate) coalesced: bool,
}

/// Arguments of verbs that take sessions.
#[derive(Args, Debug)]
pub(crate) struct SessionsArgs {
    /// The sessions
    #[arg(required = true, value_name = "SESSION")]
    pub(crate) sessions: Vec<SessionRef>,
}

/// Arguments of `models`.
#[derive(Args, Debug)]
pub(crate) struct ModelsArgs {
    /// Those of this session instead of this terminal
    #[arg(long)]
    pub(crate) session: Option<SessionRef>,
}

/// Arguments of `daemon`.
#[derive(Args, Debug)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) action: DaemonAction,
}

/// What to do with the daemon.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum DaemonAction {
    /// Start it, unless it runs
    Start,
    /// Stop it; runs are aborted and recorded first
    Stop,
    /// Stop it and start the one that is installed now
    Restart,
    /// Tell what it is doing
    Status,
}

/// Arguments of `rpc`.
#[derive(Args, Debug)]
pub(crate) struct RpcArgs {
    /// Name of the method
    pub(crate) method: String,
    /// Its parameters; "-" reads them from standard input
    pub(crate) params: Option<String>,
    /// Adds the id of this session to the parameters
    #[arg(short, long)]
    pub(crate) session: Option<SessionRef>,
}

fn thinking_level(word: &str) -> Result<ThinkingLevel, String> {
    ThinkingLevel::parse(word).ok_or_else(|| "one of off, minimal, low, medium, high, xhigh".to_owned())
}

fn parse_since(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once(':').and_then(|(epoch, seq)| Some((epoch.to_owned(), seq.parse().ok()?)));
    parts.filter(|(epoch, _)| !epoch.is_empty()).ok_or_else(|| "EPOCH:SEQ, such as x1y2:120".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_names_the_verbs_in_order_of_use() {
        let names: Vec<_> = Cli::command().get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        let use_order = ["run", "attach", "send", "ls", "approvals", "approve", "deny"];
        let rest = ["trust", "untrust", "rules", "tail", "abort", "wait", "models", "auth", "config", "daemon", "rpc"];
        assert_eq!(names, [&use_order[..], &rest].concat());
    }

    #[test]
    fn cursors_are_read() {
        assert_eq!(parse_since("a:b:7"), Ok(("a:b".to_owned(), 7)));
        for bad in ["", "7", ":7", "a:", "a:-1", "a:x"] {
            assert!(parse_since(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_may_stand_among_the_words() {
        let cli =
            Cli::try_parse_from(["agentctl", "run", "fix", "--model", "p/m", "@f", "-q", "--json"]).expect("parses");
        let Verb::Run(run) = cli.verb else { panic!("{cli:?}") };
        assert_eq!(run.message.words, ["fix", "@f"]);
        assert!(run.quiet && cli.json);
        let cli = Cli::try_parse_from(["agentctl", "ls", "--cwd"]).expect("parses");
        let Verb::Ls(ls) = cli.verb else { panic!("{cli:?}") };
        assert_eq!(ls.cwd, Some(PathBuf::from(".")));
    }
}
