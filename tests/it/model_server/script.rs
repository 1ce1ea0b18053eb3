//! What the server replies: the notation of the recordings' scripts, and a few steps of our own.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// A whole script. Replies are consumed in order, one a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// Replies in order.
    #[serde(default)]
    pub(crate) replies: VecDeque<Reply>,
    /// Replies for requests whose body contains a text; looked at first.
    #[serde(default)]
    pub(crate) routes: Vec<Route>,
    /// Begin again when the list is used up.
    #[serde(default, rename = "loop")]
    pub(crate) looped: bool,
    /// Reply when the list is used up; the text `END OF SCRIPT` when left out.
    #[serde(default)]
    pub(crate) default: Option<Reply>,
    /// The list as it was, for `loop`.
    #[serde(skip)]
    again: VecDeque<Reply>,
}

/// Replies for requests of one kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// Text that the request's body contains.
    pub(crate) contains: String,
    /// Replies in order.
    pub(crate) replies: VecDeque<Reply>,
}

/// One reply. Which steps exclude each other: `drop`, `status`, `raw_http`, `raw`, else a stream of `blocks`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reply {
    /// Shorthand for one text block.
    pub(crate) text: Option<String>,
    /// Content in order.
    pub(crate) blocks: Vec<Block>,
    /// A long stream of equal deltas instead of blocks.
    pub(crate) synth: Option<Synth>,
    /// Tokens; defaults when left out, not reported when null.
    #[serde(deserialize_with = "given")]
    pub(crate) usage: Option<Option<Usage>>,
    /// Finish reason; from the blocks when left out, not sent when null.
    #[serde(deserialize_with = "given")]
    pub(crate) stop: Option<Option<String>>,
    /// Model name that the server reports.
    pub(crate) model: Option<String>,
    /// Response id.
    pub(crate) id: Option<String>,
    /// Characters a delta; the whole block when left out.
    pub(crate) chunk: Option<usize>,
    /// Pause before every chunk.
    pub(crate) delay_ms: u64,
    /// Pause before the headers.
    pub(crate) first_delay_ms: u64,
    /// Serve this reply that many times.
    pub(crate) repeat: Option<usize>,
    /// Close the socket after so many chunks.
    pub(crate) cut_after: Option<usize>,
    /// Close with RST instead of FIN when cutting.
    pub(crate) reset: bool,
    /// End the body cleanly after so many chunks.
    pub(crate) end_after: Option<usize>,
    /// Send no more after so many chunks and keep the socket open.
    pub(crate) hang_after: Option<usize>,
    /// Send a broken data line after so many chunks, then go on.
    pub(crate) malformed_after: Option<usize>,
    /// Send [`Reply::error`] after so many chunks, then end.
    pub(crate) error_after: Option<usize>,
    /// The in-stream error object.
    pub(crate) error: Option<Value>,
    /// Leave out `[DONE]`.
    pub(crate) no_done: bool,
    /// Answer with this status instead of a stream.
    pub(crate) status: Option<u16>,
    /// Headers of that answer.
    pub(crate) headers: Map<String, Value>,
    /// Body of that answer: text, or a value sent as JSON.
    pub(crate) body: Value,
    /// Close the socket without an answer.
    pub(crate) drop: bool,
    /// Gates by number of the chunk before which the server waits until the test releases them.
    pub(crate) gates: BTreeMap<usize, String>,
    /// Gate before the headers.
    pub(crate) first_gate: Option<String>,
    /// Exact bytes of the body, one socket write a piece, after an event-stream head; the connection closes after them.
    pub(crate) raw: Option<Vec<Piece>>,
    /// Exact bytes of the whole answer, head included.
    pub(crate) raw_http: Option<Vec<Piece>>,
    /// Cut raw pieces into pieces of this many bytes.
    pub(crate) raw_split: Option<usize>,
    /// What happens after raw bytes.
    pub(crate) then: Then,
}

/// A piece of a raw answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Piece {
    /// Text as it stands.
    Text(String),
    /// Any bytes.
    Bytes {
        /// The bytes in base64.
        base64: String,
    },
    /// Text many times over, one socket write each.
    Repeat {
        /// The text.
        repeat: String,
        /// How often.
        times: usize,
    },
    /// Wait until the test releases a gate.
    Gate {
        /// Its name.
        gate: String,
    },
}

impl Piece {
    /// Returns the bytes and how often they are sent; `None` for a gate.
    pub(crate) fn bytes(&self) -> Option<(Vec<u8>, usize)> {
        match self {
            Self::Text(text) => Some((text.clone().into_bytes(), 1)),
            Self::Bytes { base64 } => Some((STANDARD.decode(base64).expect("base64 in a raw piece"), 1)),
            Self::Repeat { repeat, times } => Some((repeat.clone().into_bytes(), *times)),
            Self::Gate { .. } => None,
        }
    }
}

/// What happens after raw bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Then {
    /// The server closes the connection.
    #[default]
    Close,
    /// The server resets the connection.
    Reset,
    /// The server says nothing more.
    Hang,
}

/// One content block.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Block {
    /// Reasoning.
    Thinking {
        /// The text.
        thinking: String,
        /// Signature, in dialects that have one.
        #[serde(default)]
        signature: Option<String>,
        /// Field it is sent in (chat); `reasoning_content` when left out.
        #[serde(default)]
        field: Option<String>,
    },
    /// Reasoning that was withheld, in dialects that have that.
    Redacted {
        /// What stands for it.
        redacted: String,
    },
    /// A tool call.
    Tool {
        /// Its name.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        args: Option<Value>,
        /// Its arguments as they go over the wire, legal or not.
        #[serde(default)]
        raw_args: Option<String>,
        /// Its id; made from the request number when left out.
        #[serde(default)]
        id: Option<String>,
    },
    /// Text.
    Text {
        /// The text.
        text: String,
    },
}

/// A stream of equal deltas.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Synth {
    /// How many.
    pub(crate) deltas: usize,
    /// Text of each.
    #[serde(default = "word")]
    pub(crate) text: String,
    /// How many go into one socket write.
    #[serde(default = "one")]
    pub(crate) per_write: usize,
}

/// Tokens that a reply reports.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Usage {
    /// Uncached prompt tokens.
    pub(crate) input: u64,
    /// Generated tokens.
    pub(crate) output: u64,
    /// Cached prompt tokens read.
    pub(crate) cache_read: u64,
    /// Prompt tokens written to a cache.
    pub(crate) cache_write: u64,
    /// Generated tokens that were reasoning.
    pub(crate) reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, output: 10, cache_read: 0, cache_write: 0, reasoning: 0 }
    }
}

fn word() -> String {
    "word ".to_owned()
}

fn one() -> usize {
    1
}

/// Tells a field that is null from one that is left out.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(d).map(Some)
}

impl Script {
    /// Reads a script; a notation that is not known here is an error, never ignored.
    #[track_caller]
    pub(crate) fn parse(value: Value) -> Self {
        let mut script: Self = serde_json::from_value(value).expect("a script in the known notation");
        script.replies = expand(script.replies);
        for route in &mut script.routes {
            route.replies = expand(std::mem::take(&mut route.replies));
        }
        script.again.clone_from(&script.replies);
        script
    }

    /// Takes the reply for a request with this body.
    pub(crate) fn pick(&mut self, body: &str) -> Reply {
        let route = self.routes.iter_mut().find(|route| !route.replies.is_empty() && body.contains(&route.contains));
        if let Some(reply) = route.and_then(|route| route.replies.pop_front()) {
            return reply;
        }
        if self.replies.is_empty() && self.looped {
            self.replies.clone_from(&self.again);
        }
        let end = || Reply { text: Some("END OF SCRIPT".to_owned()), ..Reply::default() };
        self.replies.pop_front().or_else(|| self.default.clone()).unwrap_or_else(end)
    }

    /// Adds a reply at the end of the list.
    #[track_caller]
    pub(crate) fn push(&mut self, reply: Value) {
        self.replies.extend(Self::parse(json!({ "replies": [reply] })).replies);
    }
}

/// Applies `repeat` and the `text` shorthand.
fn expand(replies: VecDeque<Reply>) -> VecDeque<Reply> {
    replies.into_iter().flat_map(|reply| std::iter::repeat_n(reply.clone(), reply.repeat.unwrap_or(1))).collect()
}

impl Reply {
    /// Returns the content blocks, the shorthand included.
    pub(crate) fn content(&self) -> Vec<Block> {
        match &self.text {
            Some(text) if self.blocks.is_empty() => vec![Block::Text { text: text.clone() }],
            _ => self.blocks.clone(),
        }
    }

    /// Returns the tokens to report, if any.
    pub(crate) fn tokens(&self) -> Option<Usage> {
        self.usage.unwrap_or(Some(Usage::default()))
    }

    /// Returns the finish reason in the notation's own words, if one is sent.
    pub(crate) fn finish(&self) -> Option<String> {
        let by_content = || {
            let calls = self.blocks.iter().any(|block| matches!(block, Block::Tool { .. }));
            Some(if calls { "toolUse" } else { "stop" }.to_owned())
        };
        self.stop.clone().unwrap_or_else(by_content)
    }
}
