//! The wire is plain JSON-RPC 2.0: the client of jsonrpsee itself drives the daemon.

use std::collections::BTreeMap;

use agentd_protocol::event::EventParams;
use agentd_protocol::framing::{Decoder, Frame, FrameReader};
use agentd_protocol::methods::{AttachResult, PingResult, PromptResult, SessionState, WithSeq};
use jsonrpsee::core::client::{
    BatchResponse, Client, ClientBuilder, ClientT, Error, ReceivedMessage, SubscriptionClientT, TransportReceiverT,
    TransportSenderT,
};
use jsonrpsee::core::params::{BatchRequestBuilder, ObjectParams};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::fake::Fake;

struct Sender(WriteHalf<DuplexStream>);
struct Receiver(FrameReader<ReadHalf<DuplexStream>>);

impl TransportSenderT for Sender {
    type Error = std::io::Error;

    async fn send(&mut self, mut message: String) -> Result<(), Self::Error> {
        message.push('\n');
        self.0.write_all(message.as_bytes()).await
    }
}

impl TransportReceiverT for Receiver {
    type Error = std::io::Error;

    async fn receive(&mut self) -> Result<ReceivedMessage, Self::Error> {
        match self.0.next().await {
            Ok(Some(Frame::Message(text))) => Ok(ReceivedMessage::Bytes(text.to_vec())),
            other => Err(std::io::Error::other(format!("{other:?}"))),
        }
    }
}

fn connect(fake: &std::sync::Arc<Fake>) -> Client {
    let (ours, theirs) = duplex(64 * 1024);
    let server = fake.server();
    drop(fake.tasks.spawn("connection", async move { server.serve(theirs, None).await }));
    let (read, write) = split(ours);
    let receiver = Receiver(FrameReader::new(read, Decoder::new(usize::MAX)));
    ClientBuilder::default().build_with_tokio(Sender(write), receiver)
}

fn params(value: Value) -> ObjectParams {
    let mut params = ObjectParams::new();
    for (name, value) in serde_json::from_value::<BTreeMap<String, Value>>(value).unwrap() {
        params.insert(&name, value).unwrap();
    }
    params
}

#[tokio::test]
async fn the_client_of_jsonrpsee_is_served() {
    let fake = Fake::new(usize::MAX);
    let session = fake.load("s1", "e1");
    let client = connect(&fake);

    let pong: PingResult = client.request("ping", ObjectParams::new()).await.unwrap();
    assert!(pong.time > 0);
    let error = client.request::<PingResult, _>("nope", ObjectParams::new()).await.unwrap_err();
    let Error::Call(error) = error else { panic!("{error}") };
    assert_eq!(error.code(), -32601);

    let mut events = client.subscribe_to_method::<EventParams>("event").await.unwrap();
    let since = json!({"epoch": "e1", "seq": 0});
    let attached: AttachResult =
        client.request("attach", params(json!({"sessionId": "s1", "since": since}))).await.unwrap();
    assert_eq!(attached.seq, 0);
    let prompted: WithSeq<PromptResult> = client.request("prompt", params(json!({"message": "hi"}))).await.unwrap();
    assert_eq!(prompted.seq, 3);
    for seq in 1..=3 {
        assert_eq!(events.next().await.unwrap().unwrap().seq, seq);
    }

    let mut batch = BatchRequestBuilder::new();
    batch.insert("get_state", params(json!({"sessionId": "s1"}))).unwrap();
    batch.insert("nope", ObjectParams::new()).unwrap();
    let answers: BatchResponse<'_, WithSeq<SessionState>> = client.batch_request(batch).await.unwrap();
    assert_eq!((answers.num_successful_calls(), answers.num_failed_calls()), (1, 1));

    client.notification("steer", params(json!({"message": "silent"}))).await.unwrap();
    let waiting = client.request::<Value, _>("wait", ObjectParams::new());
    let settling = async {
        super::client::until(|| session.log().last().is_some_and(|last| last == "wait")).await;
        session.settle();
    };
    let (waited, ()) = tokio::join!(waiting, settling);
    assert_eq!(waited.unwrap()["reason"], "done");
    assert_eq!(session.log(), ["attach", "prompt hi Reject from ", "get_state", "steer silent AfterTools", "wait"]);
}
