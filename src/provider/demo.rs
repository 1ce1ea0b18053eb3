//! The built-in `demo` model: a fixed script that makes real tool calls in the working directory.
//!
//! Pure: messages in, the next response out. The same conversation always gets the same response. It says what it
//! is; it uses only tools that the session offers; it reads and lists, and writes only when the prompt asks for it,
//! inside a folder with a name that tells where it came from.

use std::sync::Arc;

use agentd_protocol::message::{ContentBlock, Message, Usage};
use agentd_protocol::model::{Model, ModelCost};
use serde_json::{Value, json};

use super::anthropic_messages;
use super::context::available_tools;
use super::openai_completions::compat::Compat;
use super::spec::{API_DEMO, ModelSpec, ProviderSpec, SamplingParams};

/// Longest piece of the prompt that is repeated, in characters.
const TOPIC_CHARS: usize = 80;
/// Where the script writes when it is asked to.
const FOLDER: &str = "agentd-demo";
/// Names that are shown of a listing.
const SHOWN_NAMES: usize = 6;
/// Lines of a file that are read.
const READ_LINES: u32 = 20;

/// One response of the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    /// What it says first.
    pub(super) text: String,
    /// The tools it calls then.
    pub(super) calls: Vec<Call>,
    /// Tokens, estimated as everywhere (four characters each); they cost nothing.
    pub(super) usage: Usage,
}

/// A tool call of the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// Its id.
    pub(super) id: String,
    /// The tool.
    pub(super) name: &'static str,
    /// The arguments.
    pub(super) args: Value,
}

/// Returns the model's description.
pub fn spec() -> ModelSpec {
    ModelSpec {
        model: Model {
            id: "demo".to_owned(),
            name: "Demo (a fixed script, no network)".to_owned(),
            api: API_DEMO.to_owned(),
            provider: "demo".to_owned(),
            base_url: String::new(),
            reasoning: false,
            input: vec!["text".to_owned()],
            cost: ModelCost::default(),
            context_window: 128_000,
            max_tokens: 4096,
            thinking_level_map: None,
            prompt_cache: None,
            compat: None,
        },
        provider: Arc::new(ProviderSpec {
            id: "demo".to_owned(),
            keys: Vec::new(),
            auth_header: false,
            is_keyless: false,
        }),
        headers: Vec::new(),
        tiers: Vec::new(),
        sampling: SamplingParams::default(),
        compat: Compat::resolve("demo", "", None),
        anthropic: anthropic_messages::compat::Compat::default(),
    }
}

/// Returns the response to a conversation.
pub(super) fn reply(messages: &[Arc<Message>]) -> Reply {
    let scene = Scene::of(messages);
    let (text, calls) = scene.play();
    let spoken: usize = text.chars().count() + calls.iter().map(|(_, args)| args.to_string().len()).sum::<usize>();
    let input = estimate(messages.iter().map(|message| context_chars(message)).sum());
    let output = estimate(spoken);
    let calls = calls
        .into_iter()
        .enumerate()
        .map(|(at, (name, args))| Call { id: format!("demo_{}_{at}", scene.responses + 1), name, args })
        .collect();
    let usage = Usage { input, output, reasoning: Some(0), total_tokens: input + output, ..Usage::default() };
    Reply { text, calls, usage }
}

/// What the script sees of a conversation.
struct Scene<'m> {
    /// Text of the last user message.
    topic: String,
    /// Texts of the user messages before it.
    earlier: Vec<String>,
    /// Tool results since the last user message, newest response last.
    results: Vec<&'m Message>,
    /// Responses since the last user message that called tools.
    steps: usize,
    /// Responses of the whole conversation.
    responses: usize,
    /// Names of the tools on offer.
    tools: Vec<&'m str>,
}

type Action = (&'static str, Value);

impl<'m> Scene<'m> {
    fn of(messages: &'m [Arc<Message>]) -> Self {
        let messages: Vec<&Message> = messages.iter().map(Arc::as_ref).collect();
        let texts: Vec<String> = messages.iter().filter_map(|message| user_text(message)).collect();
        let last_user = messages.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or(0);
        let since = &messages[last_user.min(messages.len())..];
        let is_response = |message: &&&Message| matches!(message, Message::Assistant(_));
        Self {
            topic: texts.last().cloned().unwrap_or_default(),
            earlier: texts.iter().rev().skip(1).rev().cloned().collect(),
            results: since.iter().filter(|m| matches!(m, Message::ToolResult(_))).copied().collect(),
            steps: since.iter().filter(|message| calls_tools(message)).count(),
            responses: messages.iter().filter(is_response).count(),
            tools: available_tools(messages.iter().copied()).iter().map(|tool| tool.name.as_str()).collect(),
        }
    }

    fn play(&self) -> (String, Vec<Action>) {
        let wants_writing = ["write", "edit", "create"].iter().any(|word| has_word(&self.topic, word));
        match self.steps {
            0 if !self.listing().is_empty() => (self.opening(), self.listing()),
            0 => (
                format!("{}\n\nThis session offers me no tools, so that is all I can show.", self.opening()),
                Vec::new(),
            ),
            1 if wants_writing && self.offers("write") => self.write(),
            2 if wants_writing && self.offers("edit") && !self.last_failed() => self.edit(),
            1 => self.look_closer(),
            _ => (self.closing(), Vec::new()),
        }
    }

    fn opening(&self) -> String {
        let topic = quote(&self.topic);
        let Some(first) = self.earlier.first() else {
            return format!(
                "I am agentd's demo model: a fixed script, with no network and no intelligence behind it. You said {topic}. \
                 I cannot think about that, but I can show you a real run: first I look around in the working directory."
            );
        };
        let count = self.earlier.len() + 1;
        format!(
            "You said {topic}. That is message {count} of this session; the first was {}. I am still only a script, so \
             I do what I can: I look around again.",
            quote(first)
        )
    }

    /// The first calls: what is here.
    fn listing(&self) -> Vec<Action> {
        if self.offers("bash") {
            vec![("bash", json!({"command": "pwd && ls -Ap"}))]
        } else if self.offers("ls") {
            vec![("ls", json!({}))]
        } else {
            Vec::new()
        }
    }

    fn look_closer(&self) -> (String, Vec<Action>) {
        if self.last_failed() {
            return (self.closing(), Vec::new());
        }
        let names = self.names();
        let mut calls: Vec<Action> = Vec::new();
        if let Some(file) = pick_file(&names) {
            if self.offers("read") {
                calls.push(("read", json!({"path": file, "limit": READ_LINES})));
            }
            if self.offers("bash") {
                calls.push(("bash", json!({"command": format!("wc -lc < {}", shell_quote(file))})));
            }
        } else if self.offers("bash") {
            calls.push(("bash", json!({"command": "uname -sm && date"})));
        }
        let text = match (names.len(), pick_file(&names)) {
            (0, _) => "The directory is empty. I run one harmless command instead.".to_owned(),
            (count, Some(file)) => format!("I see {}: {}. I look into {file}.", entries(count), shown(&names)),
            (count, None) => {
                format!("I see {}: {}. Nothing there looks like text to me.", entries(count), shown(&names))
            }
        };
        if calls.is_empty() { (format!("{text}\n\n{FAREWELL}"), calls) } else { (text, calls) }
    }

    fn write(&self) -> (String, Vec<Action>) {
        let content = format!("agentd demo\nYou said: {}\nstatus: draft\n", one_line(&self.topic));
        let text = format!("You asked for writing, so I write a small file. It goes into {FOLDER}/ and nowhere else.");
        (text, vec![("write", json!({"path": format!("{FOLDER}/note.txt"), "content": content}))])
    }

    fn edit(&self) -> (String, Vec<Action>) {
        let edits = json!([{"oldText": "status: draft", "newText": "status: done"}]);
        let text = "Now I change one line of it.".to_owned();
        (text, vec![("edit", json!({"path": format!("{FOLDER}/note.txt"), "edits": edits}))])
    }

    /// The last words, made of what the tools returned.
    fn closing(&self) -> String {
        let mut found: Vec<String> = Vec::new();
        for result in &self.results {
            let Message::ToolResult(result) = result else { continue };
            let text = blocks_text(&result.content);
            let first = quote(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
            let sentence = match (result.is_error, result.tool_name.as_str()) {
                (true, name) => format!("{name} failed and said {first}"),
                (false, "read") => format!("the file begins with {first}"),
                (false, "bash") => format!("the shell answered {first}"),
                (false, name) => format!("{name} answered {first}"),
            };
            found.push(sentence);
        }
        if found.is_empty() { FAREWELL.to_owned() } else { format!("Done: {}.\n\n{FAREWELL}", found.join("; ")) }
    }

    fn offers(&self, tool: &str) -> bool {
        self.tools.contains(&tool)
    }

    fn last_failed(&self) -> bool {
        matches!(self.results.last(), Some(Message::ToolResult(result)) if result.is_error)
    }

    /// Names in the listing that the first call returned; directories end in `/`.
    fn names(&self) -> Vec<String> {
        let Some(Message::ToolResult(result)) = self.results.first() else { return Vec::new() };
        let text = blocks_text(&result.content);
        // The shell's listing begins with the directory's own path.
        let skip = usize::from(result.tool_name == "bash");
        let is_name = |line: &&str| !line.is_empty() && !line.starts_with(['[', '(']);
        text.lines().skip(skip).filter(is_name).map(str::to_owned).collect()
    }
}

const FAREWELL: &str = "That was the whole script. For a model that thinks, set a key such as OPENAI_API_KEY in your \
                        environment and choose the model by name, provider/id.";

/// Chooses a file that is likely to be text: a README first.
fn pick_file(names: &[String]) -> Option<&str> {
    const TEXT: &[&str] = &[
        "md", "txt", "rs", "py", "js", "ts", "go", "c", "h", "cpp", "java", "rb", "sh", "toml", "json", "yml", "yaml",
    ];
    let is_text =
        |name: &&String| name.rsplit_once('.').is_some_and(|(stem, ext)| !stem.is_empty() && TEXT.contains(&ext));
    let is_readme = |name: &&String| name.to_ascii_lowercase().starts_with("readme") && !name.ends_with('/');
    let is_known = |name: &&String| matches!(name.as_str(), "LICENSE" | "Makefile" | "Dockerfile");
    let find = |test: &dyn Fn(&&String) -> bool| names.iter().find(|name| test(name)).map(String::as_str);
    find(&is_readme).or_else(|| find(&is_text)).or_else(|| find(&is_known))
}

fn entries(count: usize) -> String {
    if count == 1 { "one entry".to_owned() } else { format!("{count} entries") }
}

fn shown(names: &[String]) -> String {
    let first = names.iter().take(SHOWN_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN_NAMES { format!("{first}, …") } else { first }
}

fn shell_quote(text: &str) -> String {
    // `./` keeps a name that begins with a dash from being an option.
    format!("'./{}'", text.replace('\'', r"'\''"))
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= TOPIC_CHARS { line } else { line.chars().take(TOPIC_CHARS).collect::<String>() + "…" }
}

fn quote(text: &str) -> String {
    let line = one_line(text);
    if line.is_empty() { "nothing".to_owned() } else { format!("“{line}”") }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|found| found.eq_ignore_ascii_case(word))
}

fn calls_tools(message: &Message) -> bool {
    matches!(message, Message::Assistant(response)
        if response.content.iter().any(|block| matches!(block, ContentBlock::ToolCall(_))))
}

fn user_text(message: &Message) -> Option<String> {
    match message {
        Message::User(user) => Some(blocks_text(&user.content)),
        _ => None,
    }
}

fn blocks_text(blocks: &[ContentBlock]) -> String {
    blocks.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
}

/// Characters that a message adds to the context, roughly.
fn context_chars(message: &Message) -> usize {
    match message {
        Message::System(system) => {
            system.sections.values().filter_map(Value::as_str).map(|text| text.chars().count()).sum()
        }
        Message::User(user) => blocks_text(&user.content).chars().count(),
        Message::ToolResult(result) => blocks_text(&result.content).chars().count(),
        Message::Assistant(response) => blocks_text(&response.content).chars().count(),
        _ => 0,
    }
}

fn estimate(chars: usize) -> u64 {
    u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
