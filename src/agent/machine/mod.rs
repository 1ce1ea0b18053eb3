//! One session as a state machine: inputs in, a list of effects out.
//!
//! Pure: it never does anything itself, and never reads a clock; the time of an input and the session's tree come
//! with each call. The actor performs the effects in order and feeds results back as inputs. An effect that writes
//! is a barrier: what follows it happens only when it is on disk. Inputs are read at any time, so a result that is
//! late, doubled or out of order must find nothing to do.
//!
//! | state | waits for | file |
//! | --- | --- | --- |
//! | idle | a prompt or `continue` | `idle` |
//! | starting | the preparation of a run (model, system prompt, working directory); its session takes no request meanwhile | `idle` |
//! | streaming | the end of a model response | `streaming` |
//! | tools | the end of every tool call of the response, and consent to those that need it | `tools`, `consent` |
//! | between turns | the writes of a finished turn | `turns` |
//! | retry wait | a timer | `retry` |
//! | asking | the answer to a question | `asking` |
//!
//! A run that is being stopped stays in its state, with `stop` set, until what it waits for has ended.

mod asking;
mod consent;
mod core;
mod effect;
mod failure;
mod idle;
mod images;
mod input;
mod queue;
mod retry;
mod streaming;
mod tools;
mod turns;

#[cfg(test)]
mod tests;

pub use self::core::{Left, Machine, MachineSettings, ModelFacts, Moment};
pub use consent::LeftBatch;
pub use effect::{Cut, Effect, NewEntry, Outcome};
pub use failure::Untold;
pub use input::{Failure, Input, Prepared, Refusal, ReplyId, RequestId, Response, RetryId, Stop, ToolEnd};
pub use queue::{QueuedMessage, Queues};
pub use tools::result_message;
