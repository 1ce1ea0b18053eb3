//! No schedule of cuts, attachments and reading speeds loses, repeats or reorders anything.

use agentd_protocol::event::EventParams;
use agentd_protocol::methods::{AttachResult, View};
use agentd_protocol::session_view::SessionView;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::client::Client;
use super::fake::{Fake, FakeSession};

#[derive(Clone, Debug)]
enum Step {
    /// The session streams so many deltas.
    Stream(usize),
    /// The merge timer fires.
    Flush,
    /// The client reads so many messages, if they come.
    Read(usize),
    /// The client attaches again from its cursor, on the same connection or a new one, in a view.
    Attach { reconnect: bool, view: View },
    /// The client attaches without a cursor.
    Snapshot(View),
    /// The client asks something.
    Ask,
}

fn view() -> impl Strategy<Value = View> {
    prop_oneof![Just(View::Full), Just(View::Coalesced)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1usize..60).prop_map(Step::Stream),
        2 => Just(Step::Flush),
        3 => (1usize..30).prop_map(Step::Read),
        3 => (any::<bool>(), view()).prop_map(|(reconnect, view)| Step::Attach { reconnect, view }),
        1 => view().prop_map(Step::Snapshot),
        2 => Just(Step::Ask),
    ];
    proptest::collection::vec(step, 1..40)
}

struct Reader {
    client: Client,
    view: Option<SessionView>,
}

impl Reader {
    /// Reads until an answer comes and folds the events before it.
    async fn answer(&mut self) -> Value {
        let answer = self.client.answer().await;
        self.fold();
        answer
    }

    fn fold(&mut self) {
        for event in self.client.events.drain(..) {
            let params: EventParams = serde_json::from_value(event).unwrap();
            let view = self.view.as_mut().expect("no event comes before the attachment's answer");
            let seq = params.seq;
            view.apply(&params).unwrap();
            assert_eq!(view.seq, seq, "no event comes twice");
        }
    }

    async fn attach(&mut self, view: View, since: Option<Value>) {
        let mut params = json!({"sessionId": "s1", "view": view});
        if let Some(since) = since {
            params["since"] = since;
        }
        self.client.ask("attach", params).await;
        let mut answer = self.answer().await;
        let result: AttachResult = serde_json::from_value(answer["result"].take()).unwrap();
        match &mut self.view {
            Some(known) => {
                known.view = view;
                // Events that came while the request was on its way are past the cursor that it named.
                match agentd_protocol::methods::Replay::Exact == result.replay {
                    true => known.seq = result.seq,
                    false => *known = SessionView::new(result, view),
                }
            }
            none => *none = Some(SessionView::new(result, view)),
        }
    }
}

async fn run(steps: Vec<Step>, ring_bytes: usize, pipe: usize) {
    let fake = Fake::new(ring_bytes);
    let session: FakeSession = fake.load("s1", "e1");
    let server = fake.server();
    let mut reader = Reader { client: Client::connect_with(&server, &fake.tasks, pipe), view: None };
    reader.attach(View::Full, None).await;
    let mut count = 0;
    for step in steps {
        match step {
            Step::Stream(many) => {
                let texts: Vec<String> = (0..many).map(|n| format!("{} ", count + n)).collect();
                count += many;
                session.stream(texts.iter().map(String::as_str));
            }
            Step::Flush => session.ring().flush_merge(),
            Step::Read(many) => {
                for _ in 0..many {
                    let (known, last) = (reader.view.as_ref().unwrap().seq, session.ring().last_seq());
                    if known >= last || reader.view.as_ref().unwrap().view == View::Coalesced {
                        break;
                    }
                    let event = reader.client.event().await;
                    reader.client.events.insert(0, event);
                    reader.fold();
                }
            }
            Step::Attach { reconnect, view } => {
                if reconnect {
                    reader.client = Client::connect_with(&server, &fake.tasks, pipe);
                    let since = json!(reader.view.as_ref().unwrap().cursor());
                    reader.attach(view, Some(since)).await;
                } else {
                    // On a live connection events may be on their way: an answer tells that all are read.
                    reader.client.ask("get_state", json!({})).await;
                    reader.answer().await;
                    let since = json!(reader.view.as_ref().unwrap().cursor());
                    reader.attach(view, Some(since)).await;
                }
            }
            Step::Snapshot(view) => reader.attach(view, None).await,
            Step::Ask => {
                reader.client.ask("get_state", json!({})).await;
                let answer = reader.answer().await;
                assert!(reader.view.as_ref().unwrap().seq >= answer["result"]["seq"].as_u64().unwrap());
            }
        }
    }
    reader.client.ask("get_state", json!({})).await;
    reader.answer().await;
    assert_eq!(reader.view.unwrap().text_of(&"m".into()).unwrap(), session.text());
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn with_room_for_all(steps in steps()) {
        block_on(run(steps, usize::MAX, 4096));
    }

    #[test]
    fn with_little_room_and_a_slow_client(steps in steps()) {
        block_on(run(steps, 3000, 300));
    }
}
