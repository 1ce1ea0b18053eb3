//! The stock jsonrpsee client drives the daemon: the wire is plain JSON-RPC 2.0.

use jsonrpsee::core::client::{
    Client, ClientBuilder, ClientT, ReceivedMessage, SubscriptionClientT, TransportReceiverT, TransportSenderT,
};
use jsonrpsee::core::params::{BatchRequestBuilder, ObjectParams};
use jsonrpsee::core::traits::ToRpcParams;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::harness::{Daemon, Home, bounded};

struct Sender(OwnedWriteHalf);

impl TransportSenderT for Sender {
    type Error = std::io::Error;

    async fn send(&mut self, message: String) -> Result<(), Self::Error> {
        self.0.write_all(format!("{message}\n").as_bytes()).await
    }
}

struct Receiver(Lines<BufReader<OwnedReadHalf>>);

impl TransportReceiverT for Receiver {
    type Error = std::io::Error;

    async fn receive(&mut self) -> Result<ReceivedMessage, Self::Error> {
        match self.0.next_line().await? {
            Some(line) => Ok(ReceivedMessage::Text(line)),
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

async fn connect(daemon: &Daemon) -> Client {
    let (read, write) = UnixStream::connect(daemon.home().socket()).await.unwrap().into_split();
    ClientBuilder::default().build_with_tokio(Sender(write), Receiver(BufReader::new(read).lines()))
}

fn params(value: &Value) -> impl ToRpcParams + Send + use<> {
    let mut params = ObjectParams::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        params.insert(name, value).unwrap();
    }
    params
}

#[tokio::test]
async fn calls_errors_batches_and_events() {
    let daemon = Daemon::start(Home::new());
    let client = connect(&daemon).await;
    let mut events = client.subscribe_to_method::<Value>("event").await.unwrap();
    let cwd = daemon.home().cwd();
    let made: Value = client.request("new_session", params(&json!({"cwd": cwd, "model": "demo"}))).await.unwrap();
    let error = client.request::<Value, _>("get_state", params(&json!({"sessionId": "none"}))).await.unwrap_err();
    let jsonrpsee::core::ClientError::Call(error) = error else { panic!("{error:?}") };
    assert_eq!(error.code(), -32001);

    let mut batch = BatchRequestBuilder::new();
    batch.insert("ping", params(&json!({}))).unwrap();
    batch.insert("get_state", params(&json!({}))).unwrap();
    batch.insert("nope", params(&json!({}))).unwrap();
    let answers = client.batch_request::<Value>(batch).await.unwrap();
    assert_eq!((answers.num_successful_calls(), answers.num_failed_calls()), (2, 1));

    client.request::<Value, _>("set_session_name", params(&json!({"name": "by jsonrpsee"}))).await.unwrap();
    loop {
        let event = bounded("the event", events.next()).await.unwrap().unwrap();
        assert_eq!(event["sessionId"], made["sessionId"]);
        if event["event"]["type"] == "session_info_changed" {
            assert_eq!(event["event"]["name"], "by jsonrpsee");
            return;
        }
    }
}
