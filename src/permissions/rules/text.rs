//! Rules as text: TOML that people read and write.

use std::path::Path;

use agentd_protocol::methods::{Rule, RuleAction, RuleScope};
use toml_edit::{ArrayOfTables, Document, DocumentMut, Item, Table, value};

use super::rule::{Prepared, RuleFault, Rules};

/// The one key of a file of rules.
const KEY: &str = "rule";

/// Reads a file of rules. What is wrong in it is told and stops nothing else in it.
///
/// `base` is where paths begin (see [`Prepared::new`]).
pub fn parse_rules(text: &str, file: &Path, scope: RuleScope, base: Option<&Path>, home: Option<&Path>) -> Rules {
    let mut reading = Reading { text, file, rules: Rules::default() };
    match Document::parse(text) {
        Ok(document) => reading.document(&document, |rule| Prepared::new(rule, Some(scope), base, home)),
        Err(error) => reading.fault(error.span(), error.message().to_owned(), None, false),
    }
    reading.rules
}

type Span = Option<std::ops::Range<usize>>;
type Prepare<'a> = &'a dyn Fn(Rule) -> Result<Prepared, super::rule::WrongRule>;

struct Reading<'a> {
    text: &'a str,
    file: &'a Path,
    rules: Rules,
}

impl Reading<'_> {
    fn document(
        &mut self,
        document: &Document<&str>,
        prepare: impl Fn(Rule) -> Result<Prepared, super::rule::WrongRule>,
    ) {
        for (key, item) in document.iter() {
            match item.as_array_of_tables() {
                Some(tables) if key == KEY => tables.iter().for_each(|table| self.table(table, &prepare)),
                _ if key == KEY => self.fault(item.span(), format!("write each rule as [[{KEY}]]"), None, false),
                _ => {
                    let span = document.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
                    self.fault(span, format!("there is no key {key:?}; rules begin with [[{KEY}]]"), None, false);
                }
            }
        }
    }

    fn table(&mut self, table: &Table, prepare: Prepare<'_>) {
        let tool = table.get("tool").and_then(Item::as_str);
        let action = table.get("action").and_then(Item::as_str).and_then(action_of);
        let is_harmless = action == Some(RuleAction::Allow);
        match rule_of(table) {
            Err((key, message)) => {
                let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| table.span());
                self.fault(span, message, tool, is_harmless);
            }
            Ok(rule) => match prepare(rule) {
                Ok(rule) => self.rules.rules.push(rule),
                Err(error) => self.fault(table.span(), error.to_string(), tool, is_harmless),
            },
        }
    }

    fn fault(&mut self, span: Span, message: String, tool: Option<&str>, is_harmless: bool) {
        let line = span.map(|span| 1 + self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
        let (file, tool) = (self.file.to_owned(), tool.map(str::to_owned));
        self.rules.faults.push(RuleFault { file, line, message, tool, is_harmless });
    }
}

fn action_of(word: &str) -> Option<RuleAction> {
    [RuleAction::Allow, RuleAction::Ask, RuleAction::Deny].into_iter().find(|action| action.word() == word)
}

/// Reads one rule. The error names the key and says what is wrong.
fn rule_of(table: &Table) -> Result<Rule, (&str, String)> {
    let mut found = [None, None, None, None];
    const KEYS: [&str; 4] = ["action", "tool", "command", "path"];
    for (key, item) in table.iter() {
        let at = KEYS.iter().position(|known| *known == key);
        let at = at.ok_or_else(|| (key, format!("a rule has no key {key:?}; it has {}", KEYS.join(", "))))?;
        found[at] = Some(item.as_str().ok_or_else(|| (key, format!("{key:?} is a text in quotes")))?.to_owned());
    }
    let [action, tool, command, path] = found;
    let action = action.ok_or(("action", "a rule has no action: allow, ask or deny".to_owned()))?;
    let wrong = || ("action", format!("{action:?} is no action; these are allow, ask and deny"));
    let action = action_of(&action).ok_or_else(wrong)?;
    let tool = tool.ok_or(("tool", "a rule has no tool, such as tool = \"bash\"".to_owned()))?;
    Ok(Rule { action, tool, command, path })
}

/// Returns the text with a rule added at its end; as it is if the rule is there.
///
/// # Errors
/// The text is no TOML, or has something else where rules are: it is left alone.
pub fn add_rule(text: &str, rule: &Rule) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let item = document.entry(KEY).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let tables = item.as_array_of_tables_mut().ok_or_else(|| format!("{KEY} is not written as [[{KEY}]]"))?;
    if tables.iter().any(|table| rule_of(table).is_ok_and(|known| known == *rule)) {
        return Ok(text.to_owned());
    }
    let mut table = Table::new();
    table["action"] = value(rule.action.word());
    table["tool"] = value(&rule.tool);
    for (key, text) in [("command", &rule.command), ("path", &rule.path)] {
        if let Some(text) = text {
            table[key] = value(text);
        }
    }
    tables.push(table);
    Ok(document.to_string())
}

/// Returns the text without a rule, and how often it was there.
///
/// # Errors
/// The text is no TOML: it is left alone.
pub fn remove_rule(text: &str, rule: &Rule) -> Result<(String, usize), String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    let Some(tables) = document.get_mut(KEY).and_then(Item::as_array_of_tables_mut) else {
        return Ok((text.to_owned(), 0));
    };
    let before = tables.len();
    tables.retain(|table| !rule_of(table).is_ok_and(|known| known == *rule));
    let removed = before - tables.len();
    Ok(if removed == 0 { (text.to_owned(), 0) } else { (document.to_string(), removed) })
}
