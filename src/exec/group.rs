//! Ends the processes of a call: the group, and those that left it.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

use super::helper::HELPER_ARGUMENT;
use super::procfs::{Process, command_line, processes};
use crate::constants::{KILL_WAIT, TERMINATE_GRACE};
use crate::tasks::Tasks;

/// Longest pause between two looks at processes that are to end.
const LONGEST_LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Longest time that a look at /proc may take before the group is killed without it.
const LOOK_LIMIT: Duration = Duration::from_millis(500);

/// The processes of one call. Dropped while armed, it kills them all at once.
#[derive(Debug)]
pub struct ProcessGroup {
    members: Members,
    tasks: Tasks,
    armed: bool,
    /// Processes outside of the group that were asked to end.
    asked: Asked,
}

/// Ids and start times.
type Asked = Arc<Mutex<HashSet<(i32, u64)>>>;

/// How to find the processes of one call.
#[derive(Clone, Debug)]
struct Members {
    /// The first process, which leads the group.
    leader: i32,
    /// When the leader was started; older processes cannot belong to the call.
    since: u64,
    /// The value of the marker variable.
    marker: Arc<str>,
    /// The leader's command line while it is still what we started.
    command_line: Arc<[u8]>,
}

impl ProcessGroup {
    /// Watches over the process `leader` that was just started with this command line.
    pub(crate) fn new(leader: u32, argv: &[String], marker: &str, tasks: &Tasks) -> io::Result<Self> {
        // The group 0 would be our own, and a negative one everybody.
        let leader = i32::try_from(leader).ok().filter(|pid| *pid > 1).ok_or(io::ErrorKind::InvalidInput)?;
        let command_line: Vec<u8> = argv.iter().flat_map(|word| word.bytes().chain([0])).collect();
        let since = Process::read(leader).map_or(0, |process| process.started);
        let members = Members { leader, since, marker: marker.into(), command_line: command_line.into() };
        Ok(Self { members, tasks: tasks.clone(), armed: true, asked: Asked::default() })
    }

    /// Leaves what still runs alone: the call ended by itself.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Ends all processes of the call and reaps the first one. Takes at most the grace and [`KILL_WAIT`].
    pub(crate) async fn terminate(&mut self, leader: &mut Child) {
        let asked = self.asked.clone();
        self.look(move |members| members.ask_to_end(&asked)).await;
        if !self.wait_until_gone(leader, TERMINATE_GRACE).await {
            self.look(Members::kill).await;
            if !self.wait_until_gone(leader, KILL_WAIT).await {
                tracing::warn!(leader = self.members.leader, "processes of a tool call cannot be killed");
            }
        }
        self.armed = false;
    }

    /// Runs something that reads /proc, without ever waiting for it long.
    async fn look<T: Send + 'static>(&self, action: impl FnOnce(&Members) -> T + Send + 'static) -> Option<T> {
        let members = self.members.clone();
        let done = timeout(LOOK_LIMIT, self.tasks.spawn_blocking(move || action(&members))).await;
        if done.is_err() {
            self.members.kill_group();
        }
        done.ok()?.ok()
    }

    async fn wait_until_gone(&self, leader: &mut Child, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_millis(1);
        loop {
            // A leader that was not reaped yet counts as gone, but is reaped as early as possible.
            let _ = leader.try_wait();
            let asked = self.asked.clone();
            if self.look(move |members| members.ask_new_strays(&asked)).await == Some(0) {
                let _ = timeout(KILL_WAIT, leader.wait()).await;
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK_PAUSE);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        self.members.kill_group();
        // Those that left the group are looked for where that may take its time.
        if Handle::try_current().is_ok() {
            let members = self.members.clone();
            drop(self.tasks.spawn_blocking(move || members.kill()));
        }
    }
}

impl Members {
    fn ask_to_end(&self, asked: &Asked) {
        if self.leader_may_go_on() {
            signal(self.leader, Signal::SIGKILL);
        }
        // One call reaches all members before any of them can see another's end: a shell among them cannot begin the
        // next command of a list.
        self.signal_group(Signal::SIGTERM);
        self.signal_group(Signal::SIGCONT);
        self.ask_new_strays(asked);
    }

    /// Asks those outside of the group, each once: unlike in a group, one may be born while others are asked. Returns
    /// how many of all still run.
    fn ask_new_strays(&self, asked: &Asked) -> usize {
        let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for process in self.alive() {
            count += 1;
            if process.group != self.leader && asked.insert((process.pid, process.started)) {
                signal(process.pid, Signal::SIGTERM);
                signal(process.pid, Signal::SIGCONT);
            }
        }
        count
    }

    fn kill(&self) {
        self.kill_group();
        // Again and again while they start new ones.
        for _ in 0..10 {
            let strays: Vec<_> = self.strays().collect();
            if strays.is_empty() {
                return;
            }
            for process in strays {
                signal(process.pid, Signal::SIGKILL);
            }
        }
    }

    fn kill_group(&self) {
        self.signal_group(Signal::SIGKILL);
        // The helper has a group of its own only a moment after its start.
        if self.leader_is_ours() {
            signal(self.leader, Signal::SIGKILL);
        }
    }

    /// All that still run, in the group or elsewhere: known by the session, which began with the first process, or by
    /// the marker. One that left both behind is not found.
    fn alive(&self) -> impl Iterator<Item = Process> {
        processes().filter(|process| {
            process.is_alive()
                && process.started >= self.since
                && (process.group == self.leader || process.session == self.leader || self.is_marked(process))
        })
    }

    /// Those that left the group.
    fn strays(&self) -> impl Iterator<Item = Process> {
        self.alive().filter(|process| process.group != self.leader)
    }

    fn is_marked(&self, process: &Process) -> bool {
        process.call_marker().is_some_and(|marker| *marker == *self.marker)
    }

    /// Whether the first process is still the shell (or our helper), which would go on to the next command or run a
    /// trap that does. A program that took its place with `exec` may want to clean up and is asked like the others.
    fn leader_may_go_on(&self) -> bool {
        self.leader_is_ours()
            && command_line(self.leader).is_none_or(|line| {
                line.is_empty() || *line == *self.command_line || line.ends_with(helper_tail().as_bytes())
            })
    }

    /// Whether the id still belongs to the process that we started.
    fn leader_is_ours(&self) -> bool {
        Process::read(self.leader).is_some_and(|process| process.started == self.since)
    }

    /// Signals the group while its id cannot have been given to another one.
    fn signal_group(&self, which: Signal) {
        let is_ours = self.leader_is_ours() || processes().any(|process| self.is_member(&process));
        if is_ours {
            // Nobody left is as good as ended.
            let _ = killpg(Pid::from_raw(self.leader), which);
        }
    }

    fn is_member(&self, process: &Process) -> bool {
        process.group == self.leader && process.started >= self.since
    }
}

fn helper_tail() -> String {
    format!("{HELPER_ARGUMENT}\0")
}

fn signal(pid: i32, which: Signal) {
    // Gone meanwhile is as good as ended.
    let _ = kill(Pid::from_raw(pid), which);
}

/// Ends, first politely, all processes whose marker satisfies `is_meant`. Blocks up to the grace and longer.
fn end_marked(is_meant: &dyn Fn(&str) -> bool) {
    let meant = || processes().filter(|p| p.is_alive() && p.call_marker().is_some_and(|marker| is_meant(&marker)));
    let give_up = std::time::Instant::now() + TERMINATE_GRACE;
    let mut found: Vec<_> = meant().collect();
    for process in &found {
        signal(process.pid, Signal::SIGTERM);
        signal(process.pid, Signal::SIGCONT);
    }
    while !found.is_empty() && std::time::Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(10));
        found = meant().collect();
    }
    // Again and again while they start new ones.
    for _ in 0..10 {
        let left: Vec<_> = meant().collect();
        if left.is_empty() {
            return;
        }
        for process in left {
            signal(process.pid, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends all processes that were started by the spawner with this tag. Blocking.
pub(crate) fn end_tagged(tag: &str) {
    let prefix = format!("{tag}:");
    end_marked(&|marker| marker.starts_with(&prefix));
}

/// Ends processes of daemons that are gone: after a crash their tool calls would run on unseen. Blocks for up to a few
/// seconds when there are any, otherwise for about a millisecond.
pub fn end_leftovers() {
    end_marked(&|marker| {
        let tag = marker.split(':').next().unwrap_or_default();
        let mut parts = tag.split('-');
        let (Some(pid), Some(started)) = (parts.next(), parts.next()) else { return false };
        let (Ok(pid), Ok(started)) = (pid.parse(), started.parse::<u64>()) else { return false };
        Process::read(pid).is_none_or(|daemon| daemon.started != started)
    });
}
