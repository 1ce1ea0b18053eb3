//! How soon the pieces of a response are passed on.
//!
//! Whoever reads each delta as it comes pays for each. While nobody does, deltas are gathered for as long as readers
//! of merged deltas wait anyway, and a session with a fast model costs next to nothing. Meanwhile the network may
//! sleep, unless much comes: its buffers are not for that.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::network::Network;
use super::stream::StreamEvent;
use crate::constants::COALESCE_WINDOW;

/// Deltas of this many bytes are passed on without waiting for more.
const MAX_HELD_BYTES: usize = 64 * 1024;

/// A response with no more bytes of deltas than this between two times that it is passed on is slow. The fastest models
/// write a tenth of it.
const SLOW_BYTES: usize = 4 * 1024;

/// Tells, whenever asked, whether somebody wants each delta as it comes.
#[derive(Clone)]
pub struct Pace(Arc<dyn Fn() -> bool + Send + Sync>);

impl Pace {
    /// Makes a pace from the question.
    pub fn new(is_eager: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_eager))
    }

    fn is_eager(&self) -> bool {
        (self.0)()
    }
}

impl Default for Pace {
    /// Each delta as it comes.
    fn default() -> Self {
        Self::new(|| true)
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pace").field(&self.is_eager()).finish()
    }
}

/// Passes on what comes, until nothing more comes or nobody receives. Only deltas ever wait, in order, for at most
/// [`COALESCE_WINDOW`].
pub(super) async fn pass_on(
    mut from: mpsc::Receiver<Vec<StreamEvent>>,
    to: mpsc::Sender<Vec<StreamEvent>>,
    pace: &Pace,
    network: &Network,
) {
    let mut held = Vec::new();
    let mut held_bytes = 0;
    // A short response is not slow: its end would be waited for.
    let mut is_slow = false;
    let mut patience = None;
    let mut due = pin!(sleep_until(Instant::now()));
    loop {
        // Both branches are cancel-safe.
        let batch = tokio::select! {
            batch = from.recv() => batch,
            () = &mut due, if !held.is_empty() => Some(Vec::new()),
        };
        let Some(batch) = batch else { break };
        let is_due = batch.is_empty();
        let can_wait = !is_due && batch.iter().all(is_delta) && !pace.is_eager();
        if can_wait {
            if held.is_empty() {
                due.as_mut().reset(Instant::now() + COALESCE_WINDOW);
                patience = is_slow.then(|| network.patience());
            }
            held_bytes += batch.iter().map(bytes).sum::<usize>();
        }
        held.extend(batch);
        if can_wait && held_bytes < MAX_HELD_BYTES {
            continue;
        }
        is_slow = (is_slow || is_due) && held_bytes < SLOW_BYTES;
        held_bytes = 0;
        drop(patience.take());
        if to.send(std::mem::take(&mut held)).await.is_err() {
            return;
        }
    }
    if !held.is_empty() {
        // Nobody receives a response any more that was given up; nothing is lost by it.
        let _ = to.send(held).await;
    }
}

/// The same without the thread that responses are read on.
#[cfg(test)]
pub(crate) async fn pass_on_alone(
    from: mpsc::Receiver<Vec<StreamEvent>>,
    to: mpsc::Sender<Vec<StreamEvent>>,
    pace: &Pace,
) {
    pass_on(from, to, pace, &Network::default()).await;
}

fn is_delta(event: &StreamEvent) -> bool {
    matches!(event, StreamEvent::Delta { .. } | StreamEvent::Usage(_))
}

fn bytes(event: &StreamEvent) -> usize {
    if let StreamEvent::Delta { delta, .. } = event { delta.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use pretty_assertions::assert_eq;

    use super::*;
    use crate::agent::event::{BlockKind, DeltaKind};

    fn delta(text: &str) -> StreamEvent {
        StreamEvent::Delta { index: 0, kind: DeltaKind::Text, delta: text.into() }
    }

    fn start() -> StreamEvent {
        StreamEvent::BlockStart { index: 0, kind: BlockKind::Text }
    }

    struct Line {
        input: mpsc::Sender<Vec<StreamEvent>>,
        output: mpsc::Receiver<Vec<StreamEvent>>,
        network: Network,
    }

    impl Line {
        async fn push(&self, events: &[StreamEvent]) {
            self.input.send(events.to_vec()).await.unwrap();
            tokio::task::yield_now().await;
        }

        /// Returns what has come out, one item a batch.
        fn out(&mut self) -> Vec<usize> {
            std::iter::from_fn(|| self.output.try_recv().ok()).map(|batch| batch.len()).collect()
        }
    }

    fn line(pace: Pace) -> (Line, impl Future<Output = ()>) {
        let (input, from) = mpsc::channel(4);
        let (to, output) = mpsc::channel(64);
        let network = Network::default();
        (Line { input, output, network: network.clone() }, async move { pass_on(from, to, &pace, &network).await })
    }

    /// Runs a test beside the line.
    async fn beside(line: impl Future<Output = ()>, test: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = test => {}
            () = async { line.await; std::future::pending().await } => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deltas_wait_for_the_window_while_nobody_wants_each() {
        let (mut ends, work) = line(Pace::new(|| false));
        beside(work, async move {
            ends.push(&[start(), delta("a")]).await;
            assert_eq!(ends.out(), [2], "the first comes at once");
            ends.push(&[delta("b")]).await;
            ends.push(&[delta("c")]).await;
            assert_eq!(ends.out(), [0_usize; 0]);
            tokio::time::sleep(COALESCE_WINDOW + Duration::from_millis(1)).await;
            assert_eq!(ends.out(), [2]);
            ends.push(&[delta("d")]).await;
            ends.push(&[StreamEvent::BlockEnd { index: 0 }]).await;
            assert_eq!(ends.out(), [2], "what is complete does not wait, nor what came before it");
            ends.push(&[delta(&"x".repeat(MAX_HELD_BYTES))]).await;
            assert_eq!(ends.out(), [1], "nor does much");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_while_somebody_wants_each() {
        let eager = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&eager);
        let (mut ends, work) = line(Pace::new(move || flag.load(Ordering::Relaxed)));
        beside(work, async move {
            ends.push(&[delta("a")]).await;
            eager.store(true, Ordering::Relaxed);
            ends.push(&[delta("b")]).await;
            assert_eq!(ends.out(), [2], "in order");
            ends.push(&[delta("c")]).await;
            assert_eq!(ends.out(), [1]);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_network_may_sleep_once_a_response_has_turned_out_to_be_slow() {
        let (mut ends, work) = line(Pace::new(|| false));
        let window = COALESCE_WINDOW + Duration::from_millis(1);
        beside(work, async move {
            ends.push(&[delta("a")]).await;
            assert_eq!(ends.network.patient(), 0, "it may be short");
            tokio::time::sleep(window).await;
            assert_eq!(ends.out(), [1]);
            ends.push(&[delta("b")]).await;
            assert_eq!(ends.network.patient(), 1);
            tokio::time::sleep(window).await;
            assert_eq!((ends.out(), ends.network.patient()), (vec![1], 0), "nothing is held");
            ends.push(&[delta("c")]).await;
            ends.push(&[StreamEvent::BlockEnd { index: 0 }]).await;
            assert_eq!((ends.out(), ends.network.patient()), (vec![2], 0));
            ends.push(&[delta(&"x".repeat(SLOW_BYTES))]).await;
            tokio::time::sleep(window).await;
            ends.push(&[delta("d")]).await;
            assert_eq!((ends.out(), ends.network.patient()), (vec![1], 0), "it is fast now");
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_passes_on_what_waits() {
        let (input, from) = mpsc::channel(4);
        let (to, mut output) = mpsc::channel(4);
        input.send(vec![delta("a")]).await.unwrap();
        drop(input);
        pass_on(from, to, &Pace::new(|| false), &Network::default()).await;
        assert_eq!(output.recv().await, Some(vec![delta("a")]));
        assert_eq!(output.recv().await, None);
    }
}
