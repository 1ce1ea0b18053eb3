//! A model and a tool that do what a plan says.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_protocol::message::{StopReason, Usage};
use agentd_protocol::{SessionId, ToolCallId};
use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::plan::{Block, End, Kind, Response};
use crate::agent::event::{BlockKind, DeltaKind};
use crate::constants::STREAM_BATCHES;
use crate::provider::{AskModel, ErrorClass, ModelRequest, ProviderError, StreamEvent, pass_on_alone};
use crate::tools::{EffectClass, Progress, Tool, ToolContext, ToolOutput, ToolUsage, Workers};

/// Characters that are written or counted in a way of their own somewhere.
const ODD: [&str; 8] = ["", "\"", "\n", "é", "\u{2028}", "\u{1}", "𝄞", "\\"];

/// The model of all sessions.
#[derive(Default)]
pub(super) struct Model {
    responses: Mutex<HashMap<SessionId, VecDeque<Response>>>,
    asked: AtomicU64,
}

impl Model {
    pub(super) fn set(&self, session: &SessionId, responses: &[Response]) {
        self.responses.lock().unwrap().insert(session.clone(), responses.iter().cloned().collect());
    }
}

impl AskModel for Model {
    fn ask(
        &self,
        request: ModelRequest,
        events: mpsc::Sender<Vec<StreamEvent>>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut responses = self.responses.lock().unwrap();
        let planned = responses.get_mut(&request.session_id).and_then(VecDeque::pop_front);
        let response = planned.unwrap_or_else(|| {
            let blocks = vec![Block { kind: Kind::Text, pieces: vec![0] }];
            Response { blocks, is_interleaved: false, batch: 4, end: End::Complete }
        });
        Box::pin(async move {
            let (pieces, from) = mpsc::channel(STREAM_BATCHES);
            // As the real client does it: what the session has given up is not waited for.
            let pass_on = async {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => {}
                    () = pass_on_alone(from, events, &request.pace) => {}
                }
            };
            let say = async {
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => Err(ProviderError::cancelled()),
                    said = say(number, &response, pieces) => said,
                }
            };
            tokio::join!(say, pass_on).0
        })
    }
}

/// Says a response, `batch` events at a time.
async fn say(number: u64, response: &Response, out: mpsc::Sender<Vec<StreamEvent>>) -> Result<(), ProviderError> {
    if response.end == End::Transient && response.blocks.is_empty() {
        return Err(ProviderError::new(ErrorClass::RateLimit, "busy"));
    }
    let mut held = vec![StreamEvent::Started];
    for (pause, event) in steps(number, response) {
        if pause > 0 || held.len() >= response.batch {
            drop(out.send(std::mem::take(&mut held)).await);
        }
        tokio::time::sleep(Duration::from_millis(pause.into())).await;
        held.push(event);
    }
    let has_calls = response.blocks.iter().any(|block| matches!(block.kind, Kind::Call { .. }));
    if response.end == End::Complete {
        let reason = if has_calls { StopReason::ToolUse } else { StopReason::Stop };
        held.push(StreamEvent::Stop { reason, raw: None });
    }
    drop(out.send(held).await);
    match response.end {
        End::Complete => Ok(()),
        End::Transient => Err(ProviderError::new(ErrorClass::Transient, "try again")),
        End::Cut => Err(ProviderError::cut("it was cut")),
        End::Fatal => Err(ProviderError::new(ErrorClass::BadRequest, "no")),
    }
}

/// Returns the events of a response, each with the pause before it.
fn steps(number: u64, response: &Response) -> Vec<(u8, StreamEvent)> {
    let blocks: Vec<_> = response.blocks.iter().enumerate().map(|at| block_steps(number, at)).collect();
    let mut steps = Vec::new();
    if response.is_interleaved {
        let longest = blocks.iter().map(|(_, deltas)| deltas.len()).max().unwrap_or(0);
        steps.extend(blocks.iter().map(|(start, _)| (0, start.clone())));
        for turn in 0..longest {
            steps.extend(blocks.iter().filter_map(|(_, deltas)| deltas.get(turn)).cloned());
        }
        steps.extend((0..blocks.len()).map(|index| (0, StreamEvent::BlockEnd { index })));
    } else {
        for (index, (start, deltas)) in blocks.into_iter().enumerate() {
            steps.push((0, start));
            steps.extend(deltas);
            steps.push((0, StreamEvent::BlockEnd { index }));
        }
    }
    if response.end == End::Cut {
        steps.pop();
    }
    // Some tokens are counted on the way, the rest at the end.
    let usage = |output| StreamEvent::Usage(Usage { output, ..Usage::default() });
    steps.insert(steps.len() / 2, (0, usage(number + 1)));
    steps.push((0, usage(number + 2)));
    steps
}

fn block_steps(number: u64, (index, block): (usize, &Block)) -> (StreamEvent, Vec<(u8, StreamEvent)>) {
    let (kind, delta_kind, texts) = match &block.kind {
        Kind::Text => (BlockKind::Text, DeltaKind::Text, texts(number, index, block)),
        Kind::Thinking => (BlockKind::Thinking, DeltaKind::Thinking, texts(number, index, block)),
        Kind::Call { output, fails } => {
            let id = format!("call{number}.{index}");
            let arguments = json!({"name": id, "output": output, "fails": fails}).to_string();
            let size = arguments.len().div_ceil(block.pieces.len().max(1));
            let texts = arguments.as_bytes().chunks(size).map(|piece| String::from_utf8_lossy(piece).into_owned());
            (
                BlockKind::ToolCall { id: ToolCallId::new(&id), name: "echo".into() },
                DeltaKind::ToolCall,
                texts.collect(),
            )
        }
    };
    let pauses = block.pieces.iter().copied().chain(std::iter::repeat(0));
    let delta = |text: String| StreamEvent::Delta { index, kind: delta_kind, delta: text.into() };
    (StreamEvent::BlockStart { index, kind }, pauses.zip(texts.into_iter().map(delta)).collect())
}

/// No two pieces are alike, so that one that is lost, repeated or misplaced changes the whole.
fn texts(number: u64, index: usize, block: &Block) -> Vec<String> {
    (0..block.pieces.len()).map(|at| format!("{number}.{index}.{at}{} ", ODD[at % ODD.len()])).collect()
}

/// Arguments of the tool.
#[derive(Deserialize, JsonSchema)]
pub(super) struct EchoArgs {
    /// Begins each line
    name: String,
    /// Pauses before the lines, in milliseconds
    output: Vec<u64>,
    /// Whether it fails in the end
    fails: bool,
}

/// Prints some lines; its result is what it has printed, also when it is stopped.
pub(super) struct Echo;

impl Tool for Echo {
    type Args = EchoArgs;
    const USAGE: ToolUsage = ToolUsage { name: "echo", summary: "print lines", habits: &[] };
    const DESCRIPTION: &'static str = "Prints lines.";
    const EFFECT: EffectClass = EffectClass::Read;

    async fn run(args: EchoArgs, context: ToolContext, _workers: Workers) -> ToolOutput {
        let mut printed = String::new();
        let printing = async {
            drop(context.progress.send(Progress::Started).await);
            for (at, pause) in args.output.iter().enumerate() {
                tokio::time::sleep(Duration::from_millis(*pause)).await;
                let line = format!("{}.{at}{}\n", args.name, ODD[at % ODD.len()]);
                drop(context.progress.send(Progress::Output(line.clone())).await);
                printed.push_str(&line);
            }
        };
        let is_stopped = tokio::select! {
            biased;
            () = context.cancel.cancelled() => true,
            () = printing => false,
        };
        ToolOutput { is_error: is_stopped || args.fails, ..ToolOutput::text(printed) }
    }
}
