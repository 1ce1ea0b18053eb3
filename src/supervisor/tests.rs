use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::event::{ListEvent, ListEventParams};
use agentd_protocol::methods::{EnvSource, IfBusy, SessionStatus, View};
use bytes::Bytes;
use pretty_assertions::assert_eq;

use super::{NewSession, Supervisor};
use crate::agent::handle::{AttachRequest, Client, ClientId, SessionError, SessionHandle, UserInput};
use crate::agent::services::Services;
use crate::config::settings::Layer;
use crate::config::{self, env::SessionEnv};
use crate::exec::SpawnerOptions;
use crate::ring::{ListWatch, Pull, Wake};
use crate::tasks::Tasks;

const LIMIT: Duration = Duration::from_secs(20);

fn supervisor(home: &Path) -> Supervisor {
    let folder = |name: &str| home.join(name).into_os_string();
    let vars = BTreeMap::from([
        ("HOME", folder("h")),
        ("XDG_STATE_HOME", folder("state")),
        ("XDG_CONFIG_HOME", folder("config")),
        ("XDG_RUNTIME_DIR", folder("run")),
        ("AGENTD_LOCAL_MODELS", OsString::from("0")),
    ]);
    let config = config::load(&|name| vars.get(name).cloned(), Layer::default()).unwrap();
    // Nothing is started here but the login shell, whose environment may be missing.
    let spawner = SpawnerOptions { exe: "/bin/false".into(), nofile: None };
    Supervisor::new(Arc::new(Services::new(config, Tasks::default(), "test", spawner).unwrap()))
}

async fn new_session(supervisor: &Supervisor, cwd: &Path) -> SessionHandle {
    let new = NewSession {
        cwd: cwd.to_owned(),
        env: SessionEnv::new(BTreeMap::new(), EnvSource::Client),
        model: Some("demo".into()),
        name: None,
        tools: Some(Vec::new()),
        mode: None,
        headless: None,
        ask_timeout_ms: None,
        given: Layer::default(),
        parent_session: None,
    };
    supervisor.new_session(new).await.unwrap()
}

fn client() -> Client {
    Client { id: ClientId(1), who: Arc::default(), answers: true }
}

/// Prompts a session and waits for the end of the run.
async fn run(session: &SessionHandle, message: &str) -> Result<(), SessionError> {
    let input = UserInput { message: message.into(), images: Vec::new(), client_message_id: None, client: client() };
    session.prompt(input, IfBusy::Reject).await?.await?;
    session.wait().await?.await?;
    Ok(())
}

async fn message_count(session: &SessionHandle) -> usize {
    session.messages().await.unwrap().await.unwrap().value.messages.len()
}

/// Reads changes of the list until one says that the session does this.
async fn until_status(watch: &mut ListWatch, wake: &Wake, wanted: SessionStatus) {
    #[derive(serde::Deserialize)]
    struct Notification {
        params: ListEventParams,
    }
    let waiting = async {
        loop {
            let mut frames: Vec<Bytes> = Vec::new();
            while watch.pull(&mut frames, 1, None) == Pull::More {}
            let events = frames.iter().map(|frame| serde_json::from_slice::<Notification>(frame).unwrap().params.event);
            let is_wanted = |event| matches!(event, ListEvent::SessionStatus { status, .. } if status == wanted);
            if events.into_iter().any(is_wanted) {
                return;
            }
            wake.ready().await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.expect("the status was not told");
}

/// A run is prepared off the actor's task. What is asked meanwhile finds the prompt in the session, and reflects no less
/// than the prompt's answer, behind which it is written.
#[tokio::test]
async fn what_is_asked_after_a_prompt_is_answered_after_it() {
    let home = tempfile::tempdir().unwrap();
    let supervisor = supervisor(home.path());
    let session = new_session(&supervisor, home.path()).await;
    for round in 0..3 {
        let before = message_count(&session).await as u64;
        let input = UserInput { message: "go".into(), images: Vec::new(), client_message_id: None, client: client() };
        let prompt = session.prompt(input, IfBusy::Reject).await.unwrap();
        let state = session.state().await.unwrap();
        let named = session.set_name(format!("round {round}")).await.unwrap();
        let (prompt, state, named) = (prompt.await.unwrap(), state.await.unwrap(), named.await.unwrap());
        assert!(state.value.message_count > before, "the prompt is in the session");
        assert!(prompt.seq <= state.seq && state.seq <= named.seq, "{} {} {}", prompt.seq, state.seq, named.seq);
        session.wait().await.unwrap().await.unwrap();
    }
    supervisor.close_all().await;
}

/// A fault of the daemon in one session is an error of its requests and an event to its clients. Others notice nothing,
/// and the next request finds it loaded anew from its file.
#[tokio::test]
async fn b160_a_session_whose_actor_panics_fails_alone_and_can_be_opened_again() {
    let home = tempfile::tempdir().unwrap();
    let supervisor = supervisor(home.path());
    let (doomed, other) = (new_session(&supervisor, home.path()).await, new_session(&supervisor, home.path()).await);
    run(&doomed, "one").await.unwrap();
    run(&other, "one").await.unwrap();
    let before = message_count(&doomed).await;
    let wake = Wake::new();
    let request = AttachRequest { since: None, view: View::Full, history: false, client: client(), wake: wake.clone() };
    let mut subscription = doomed.attach(Box::new(request)).await.unwrap().await.unwrap().value.subscription;
    let list_wake = Wake::new();
    let (mut watch, _) = supervisor.list_log().watch(None, list_wake.clone());

    let waiting = doomed.panic().await;
    assert!(matches!(waiting.await, Err(SessionError::Failed)), "it says that it failed, not that it closed");
    until_status(&mut watch, &list_wake, SessionStatus::Unloaded).await;
    let mut frames = Vec::new();
    while subscription.pull(&mut frames, usize::MAX, None) != Pull::Closed {
        wake.ready().await;
    }
    let last = String::from_utf8(frames.last().unwrap().to_vec()).unwrap();
    assert!(last.contains("session_failed"), "{last}");

    run(&other, "two").await.unwrap();
    let again = supervisor.open(doomed.id()).await.unwrap();
    assert_ne!(again.ring().epoch(), doomed.ring().epoch(), "the dead one is not given out any more");
    assert!(matches!(doomed.state().await, Err(SessionError::Closed)));
    assert_eq!(message_count(&again).await, before, "its file is whole");
    run(&again, "two").await.unwrap();
    run(&new_session(&supervisor, home.path()).await, "one").await.unwrap();
    assert_eq!(supervisor.running_count(), 0);
    supervisor.close_all().await;
}
