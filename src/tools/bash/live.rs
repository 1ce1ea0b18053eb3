//! Output on its way to those who watch: at once while it is little, and never more than somebody could read.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio::time::{Instant, sleep_until, timeout};

use crate::constants::{DRAIN_LIMIT, LIVE_OUTPUT_BYTES, LIVE_OUTPUT_BYTES_PER_SEC};
use crate::tools::context::Progress;

/// Output that is not sent yet.
pub(super) struct LiveOutput<'a> {
    progress: &'a mpsc::Sender<Progress>,
    unsent: String,
    /// Bytes left out before it.
    left_out: usize,
    /// The more was sent, the later comes more.
    next: Instant,
}

impl<'a> LiveOutput<'a> {
    pub(super) fn new(progress: &'a mpsc::Sender<Progress>) -> Self {
        Self { progress, unsent: String::new(), left_out: 0, next: Instant::now() }
    }

    /// Appends output. The command never waits for a listener: what nobody took in time is left out, with a note.
    pub(super) fn push(&mut self, text: &str) {
        if self.progress.is_closed() {
            return;
        }
        self.unsent.push_str(text);
        if self.unsent.len() > LIVE_OUTPUT_BYTES {
            // Half of it, so that not every further piece moves the rest.
            let from = self.unsent.ceil_char_boundary(self.unsent.len() - LIVE_OUTPUT_BYTES / 2);
            self.left_out += from;
            self.unsent.drain(..from);
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Waits until more may be sent. Cancel safe.
    pub(super) async fn permit(&self) -> Result<mpsc::Permit<'a, Progress>, SendError<()>> {
        sleep_until(self.next).await;
        self.progress.reserve().await
    }

    /// Sends what there is, or drops it when nobody listens any more.
    pub(super) fn send(&mut self, permit: Result<mpsc::Permit<'_, Progress>, SendError<()>>) {
        let text = self.text();
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let pause = text.len() as f64 / LIVE_OUTPUT_BYTES_PER_SEC as f64;
        self.next = Instant::now() + Duration::from_secs_f64(pause);
        if let Ok(permit) = permit {
            permit.send(Progress::Output(text));
        }
    }

    /// Sends the rest, and gives a listener that is behind a moment to hear it: the result holds the end in any case.
    pub(super) async fn finish(&mut self) {
        if self.has_unsent() {
            let text = self.text();
            let _ = timeout(DRAIN_LIMIT, self.progress.send(Progress::Output(text))).await;
        }
    }

    fn text(&mut self) -> String {
        let text = std::mem::take(&mut self.unsent);
        match std::mem::take(&mut self.left_out) {
            0 => text,
            bytes => format!("\n[{bytes} bytes left out here]\n{text}"),
        }
    }
}
