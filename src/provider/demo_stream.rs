//! Streams the demo model's script at a pace that can be read.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::ToolCallId;
use agentd_protocol::message::StopReason;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::client::{ModelRequest, send};
use super::demo::{self, Call};
use super::error::ProviderError;
use super::stream::StreamEvent;
use crate::agent::event::{BlockKind, DeltaKind};
/// Characters in one delta of a tool call's arguments.
const ARGS_PIECE_CHARS: usize = 12;

/// Streams the response to a request.
pub(super) async fn stream(
    request: &ModelRequest,
    events: &mpsc::Sender<Vec<StreamEvent>>,
    cancel: &CancellationToken,
) -> Result<(), ProviderError> {
    let reply = demo::reply(&request.messages);
    let pace = Pace { events, cancel, delay: request.demo_delay };
    let response_id = reply.calls.first().map(|call| call.id.clone());
    pace.step(vec![StreamEvent::Started, StreamEvent::Meta { response_id, response_model: None }]).await?;
    let pieces = reply.text.split_inclusive(' ').map(str::to_owned).collect();
    pace.block(0, BlockKind::Text, DeltaKind::Text, pieces).await?;
    for (at, call) in reply.calls.iter().enumerate() {
        pace.block(at + 1, block_kind(call), DeltaKind::ToolCall, args_pieces(call)).await?;
    }
    let (reason, raw) =
        if reply.calls.is_empty() { (StopReason::Stop, "stop") } else { (StopReason::ToolUse, "tool_calls") };
    send(events, vec![StreamEvent::Usage(reply.usage), StreamEvent::Stop { reason, raw: Some(raw.to_owned()) }], cancel)
        .await
}

struct Pace<'a> {
    events: &'a mpsc::Sender<Vec<StreamEvent>>,
    cancel: &'a CancellationToken,
    delay: Duration,
}

impl Pace<'_> {
    async fn block(
        &self,
        index: usize,
        kind: BlockKind,
        delta_kind: DeltaKind,
        pieces: Vec<String>,
    ) -> Result<(), ProviderError> {
        send(self.events, vec![StreamEvent::BlockStart { index, kind }], self.cancel).await?;
        for piece in pieces {
            self.step(vec![StreamEvent::Delta { index, kind: delta_kind, delta: Arc::from(piece) }]).await?;
        }
        send(self.events, vec![StreamEvent::BlockEnd { index }], self.cancel).await
    }

    /// Passes a batch on and waits a moment.
    async fn step(&self, batch: Vec<StreamEvent>) -> Result<(), ProviderError> {
        send(self.events, batch, self.cancel).await?;
        if self.delay.is_zero() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(ProviderError::cancelled()),
            () = tokio::time::sleep(self.delay) => Ok(()),
        }
    }
}

fn block_kind(call: &Call) -> BlockKind {
    BlockKind::ToolCall { id: ToolCallId::new(&call.id), name: call.name.to_owned() }
}

fn args_pieces(call: &Call) -> Vec<String> {
    let text: Vec<char> = call.args.to_string().chars().collect();
    text.chunks(ARGS_PIECE_CHARS).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use agentd_protocol::SessionId;
    use agentd_protocol::message::ThinkingLevel;
    use agentd_protocol::methods::EnvSource;
    use serde_json::json;

    use super::*;
    use crate::config::ProviderClocks;
    use crate::config::env::SessionEnv;
    use crate::provider::client::ProviderClient;

    fn request(delay_ms: u64) -> ModelRequest {
        let system = json!({"role": "system", "sections": {}, "toolsAdded":
            [{"name": "bash", "description": "", "parameters": {}}]});
        let user = json!({"role": "user", "content": "hello"});
        ModelRequest {
            spec: Arc::new(demo::spec()),
            messages: [system, user].map(|value| Arc::new(serde_json::from_value(value).unwrap())).to_vec(),
            thinking: ThinkingLevel::Off,
            env: SessionEnv::new(BTreeMap::new(), EnvSource::Client),
            cwd: PathBuf::from("/"),
            session_id: SessionId::new("s"),
            clocks: ProviderClocks::default(),
            demo_delay: Duration::from_millis(delay_ms),
            pace: crate::provider::Pace::default(),
        }
    }

    #[tokio::test]
    async fn a_response_is_streamed_in_order() {
        let (events, mut received) = mpsc::channel(4096);
        let cancel = CancellationToken::new();
        ProviderClient::new().stream(request(0), events, cancel).await.unwrap();
        let mut all = Vec::new();
        while let Some(batch) = received.recv().await {
            all.extend(batch);
        }
        assert_eq!(all.first(), Some(&StreamEvent::Started));
        assert_eq!(
            all.last(),
            Some(&StreamEvent::Stop { reason: StopReason::ToolUse, raw: Some("tool_calls".into()) })
        );
        let args: String = all
            .iter()
            .filter_map(|event| match event {
                StreamEvent::Delta { index: 1, delta, .. } => Some(&**delta),
                _ => None,
            })
            .collect();
        assert_eq!(args, r#"{"command":"pwd && ls -Ap"}"#);
        let deltas = all.iter().filter(|event| matches!(event, StreamEvent::Delta { index: 0, .. })).count();
        assert!(deltas > 20, "{deltas}");
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_ends_it_at_once() {
        let (events, mut received) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let client = ProviderClient::new();
        let run = client.stream(request(50_000), events, cancel.clone());
        let stop = async {
            received.recv().await;
            cancel.cancel();
        };
        let (ended, ()) = tokio::join!(run, stop);
        assert_eq!(ended, Err(ProviderError::cancelled()));
    }

    #[tokio::test]
    async fn a_receiver_that_went_away_ends_it() {
        let (events, received) = mpsc::channel(1);
        drop(received);
        let ended = ProviderClient::new().stream(request(0), events, CancellationToken::new()).await;
        assert_eq!(ended, Err(ProviderError::cancelled()));
    }
}
