//! The `bash` tool: one command line in a shell of its own.
//!
//! The call ends with the shell. Output that background processes still hold the pipe for is read until it falls
//! silent ([`DRAIN_QUIET`]) and at most for [`DRAIN_LIMIT`]; then the pipe is closed and they run on. An abort or a
//! timeout ends everything that the command started ([`crate::exec`] has the policy).

mod live;
mod result;

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep_until};

use self::live::LiveOutput;
use super::context::{EffectClass, Progress, ToolContext, ToolOutput};
use super::full_output::FullOutput;
use super::kept_output::{KeptOutput, Utf8Stream};
use super::paths::Base;
use super::preview::Draft;
use super::registry::{Tool, ToolUsage};
use super::truncate::format_size;
use super::work::{Gate, Workers};
use crate::constants::{COMMAND_TIMEOUT_MAX_SECS, DRAIN_LIMIT, DRAIN_QUIET};
use crate::exec::{ExecCommand, Running, SpawnError};
use crate::redact::{Keys, Redactor};

/// Arguments of `bash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct BashArgs {
    /// Command line for bash
    command: String,
    /// Seconds after which the command is ended; none by default
    timeout: Option<f64>,
}

/// The tool.
pub(crate) struct Bash;

impl Tool for Bash {
    type Args = BashArgs;
    const USAGE: ToolUsage = ToolUsage {
        name: "bash",
        summary: "run command lines: build, test, search, look around, git",
        habits: &[
            "Nobody can answer a question of a command: pass options that make it need no input.",
            "Give a timeout to what may hang. Start servers in the background with their output in a file.",
        ],
    };
    const DESCRIPTION: &'static str = "Runs a command line with bash in the working directory and returns what it \
        prints, stdout and stderr together. Each call is a new shell without terminal or input. Of long output the \
        last 2000 lines or 50KB are returned and the whole is kept in a file, whose path is given. A process left in \
        the background must have its output redirected.";
    const EFFECT: EffectClass = EffectClass::Exec;

    fn draft(args: Self::Args, _base: &Base, _gate: &Gate) -> Result<Option<Draft>, ToolOutput> {
        Ok(Some(Draft::command(&args.command)))
    }

    async fn run(args: BashArgs, context: ToolContext, _workers: Workers) -> ToolOutput {
        // Nobody listening any more is no reason to stop.
        let _ = context.progress.send(Progress::Started).await;
        match Limit::of(&args, &context) {
            Ok(limit) => run(&args.command, limit, &context).await,
            Err(refused) => refused,
        }
    }
}

/// Returns the shell that commands run in: bash where there is one.
pub fn shell_path(env: &[(String, String)]) -> PathBuf {
    let usual = Path::new("/bin/bash");
    if usual.exists() {
        return usual.to_owned();
    }
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value.as_str());
    let found =
        std::env::split_paths(path).map(|dir| dir.join("bash")).find(|bash| bash.is_absolute() && bash.exists());
    found.unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// How long the command may run.
#[derive(Clone, Copy, Debug)]
struct Limit {
    seconds: f64,
    end: Option<Instant>,
}

impl Limit {
    fn of(args: &BashArgs, context: &ToolContext) -> Result<Self, ToolOutput> {
        let seconds = args.timeout.unwrap_or(0.0);
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(ToolOutput::error("Invalid timeout: must be a finite number of seconds"));
        }
        if seconds > COMMAND_TIMEOUT_MAX_SECS {
            return Err(ToolOutput::error(format!("Invalid timeout: maximum is {COMMAND_TIMEOUT_MAX_SECS} seconds")));
        }
        let limit = match context.command_limit {
            // 0 is how models write "none".
            limit if seconds == 0.0 => limit,
            _ => Some(Duration::from_secs_f64(seconds)),
        };
        let seconds = limit.map_or(0.0, |limit| limit.as_secs_f64());
        Ok(Self { seconds, end: limit.and_then(|limit| Instant::now().checked_add(limit)) })
    }

    /// Waits for the end of the time; for ever when there is none.
    async fn passed(self) {
        match self.end {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    }
}

/// How a command ended.
#[derive(Debug)]
enum End {
    Exited(ExitStatus),
    TimedOut,
    Aborted,
    /// The system does not tell.
    Lost(std::io::Error),
}

async fn run(command: &str, limit: Limit, context: &ToolContext) -> ToolOutput {
    let begun = Instant::now();
    let mut sink = Sink::new(context);
    let started = tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(End::Aborted),
        () = limit.passed() => Err(End::TimedOut),
        started = context.spawner.spawn(shell_command(command, context)) => Ok(started),
    };
    let end = match started {
        Ok(Ok(mut running)) => attend(&mut running, &mut sink, limit, context).await,
        Ok(Err(error)) => return ToolOutput::error(spawn_text(&error, command)),
        Err(end) => end,
    };
    sink.finish().await;
    let full = sink.file.close().await;
    result::output(&sink.kept, &end, limit, full, begun.elapsed())
}

fn shell_command(command: &str, context: &ToolContext) -> ExecCommand {
    let shell = shell_path(&context.env).to_string_lossy().into_owned();
    ExecCommand {
        argv: vec![shell, "-c".to_owned(), command.to_owned()],
        env: with_failing_editors(&context.env),
        cwd: context.cwd.clone(),
        call_id: context.call_id.as_str().to_owned(),
    }
}

/// Lets editors fail instead of waiting for keys that nobody presses: without a terminal vim reads its keys from
/// stderr, which here is a pipe that never has any. git then says which option takes the text.
fn with_failing_editors(env: &[(String, String)]) -> Vec<(String, String)> {
    const EDITORS: [&str; 4] = ["EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL"];
    let others = env.iter().filter(|(name, _)| !EDITORS.contains(&name.as_str())).cloned();
    others.chain(EDITORS.map(|name| (name.to_owned(), "false".to_owned()))).collect()
}

fn spawn_text(error: &SpawnError, command: &str) -> String {
    use std::io::ErrorKind::{ArgumentListTooLong, NotFound};
    match error {
        SpawnError::WorkingDirectory { path, source } if source.kind() == NotFound => {
            format!("Working directory does not exist: {}\nNo command can run there.", path.display())
        }
        SpawnError::Program { source, .. } if source.kind() == ArgumentListTooLong => format!(
            "The command line is too long for the system ({}). Write it to a file and run that.",
            format_size(command.len())
        ),
        other => format!("The command did not start: {other}"),
    }
}

/// Reads the output and waits for the end, whatever comes first.
async fn attend(running: &mut Running, sink: &mut Sink<'_>, limit: Limit, context: &ToolContext) -> End {
    let mut drain = Drain::default();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        if let Some(status) = drain.exited
            && drain.is_over()
        {
            running.group.disarm();
            return End::Exited(status);
        }
        let runs = drain.exited.is_none();
        // Reading comes last: a flood of output must not keep the rest from being seen.
        tokio::select! {
            biased;
            // Once the shell has ended, its exit code is the answer: an abort or a timeout only cuts the drain short.
            () = context.cancel.cancelled(), if !drain.cut => {
                if runs {
                    return end_early(running, sink, End::Aborted).await;
                }
                drain.cut = true;
            }
            () = limit.passed(), if runs => return end_early(running, sink, End::TimedOut).await,
            status = running.child.wait(), if runs => match status {
                Ok(status) => drain.exit(status),
                Err(error) => return end_early(running, sink, End::Lost(error)).await,
            },
            () = drain.silence(), if !runs => drain.cut = true,
            permit = sink.live.permit(), if sink.live.has_unsent() => sink.live.send(permit),
            read = running.output.read(&mut buffer), if !drain.closed => match read {
                Ok(count) if count > 0 => {
                    sink.take(&buffer[..count]).await;
                    drain.heard();
                }
                _ => drain.closed = true,
            },
        }
    }
}

const READ_BYTES: usize = 64 * 1024;

/// Reading on after the shell's end.
#[derive(Debug, Default)]
struct Drain {
    exited: Option<ExitStatus>,
    /// The end of the output was reached.
    closed: bool,
    /// Reading is to end although the pipe is open.
    cut: bool,
    quiet: Option<Instant>,
    last: Option<Instant>,
}

impl Drain {
    fn exit(&mut self, status: ExitStatus) {
        self.exited = Some(status);
        self.last = Some(Instant::now() + DRAIN_LIMIT);
        self.quiet = Some(Instant::now() + DRAIN_QUIET);
    }

    fn heard(&mut self) {
        self.quiet = self.quiet.map(|_| Instant::now() + DRAIN_QUIET);
    }

    fn is_over(&self) -> bool {
        self.closed || self.cut
    }

    async fn silence(&self) {
        match (self.quiet, self.last) {
            (Some(quiet), Some(last)) => sleep_until(quiet.min(last)).await,
            _ => std::future::pending().await,
        }
    }
}

/// Ends the command and all that it started, and takes what they say meanwhile.
async fn end_early(running: &mut Running, sink: &mut Sink<'_>, end: End) -> End {
    let mut buffer = vec![0; READ_BYTES];
    let mut open = true;
    let gone = running.group.terminate(&mut running.child);
    tokio::pin!(gone);
    loop {
        tokio::select! {
            biased;
            () = &mut gone => break,
            read = running.output.read(&mut buffer), if open => match read {
                Ok(count) if count > 0 => sink.take(&buffer[..count]).await,
                _ => open = false,
            },
        }
    }
    // What was in the pipe at the end, and no more: somebody who got away may go on writing.
    for _ in 0..PIPE_READS {
        match running.output.try_read(&mut buffer) {
            Ok(count) if count > 0 => sink.take(&buffer[..count]).await,
            _ => break,
        }
    }
    end
}

/// Reads that empty a pipe of the largest size that a user can ask for (1 MiB).
const PIPE_READS: usize = 16;

/// Where output goes: kept for the result, to the file, and to who listens.
struct Sink<'a> {
    keys: &'a Keys,
    redactor: Redactor,
    decoder: Utf8Stream,
    kept: KeptOutput,
    file: FullOutput,
    live: LiveOutput<'a>,
}

impl<'a> Sink<'a> {
    fn new(context: &'a ToolContext) -> Self {
        Self {
            keys: &context.keys,
            redactor: Redactor::default(),
            decoder: Utf8Stream::default(),
            kept: KeptOutput::default(),
            file: FullOutput::new(&context.outputs_dir),
            live: LiveOutput::new(&context.progress),
        }
    }

    async fn take(&mut self, bytes: &[u8]) {
        let bytes = self.redactor.push(self.keys, bytes);
        self.take_redacted(&bytes).await;
    }

    async fn take_redacted(&mut self, bytes: &[u8]) {
        let text = self.decoder.feed(bytes);
        self.keep(&text);
        self.file.push(bytes).await;
        if !self.kept.totals().fits() {
            self.file.need().await;
        }
    }

    fn keep(&mut self, text: &str) {
        self.kept.push(text);
        self.live.push(text);
    }

    /// Takes what is left at the end.
    async fn finish(&mut self) {
        let held = self.redactor.finish(self.keys);
        self.take_redacted(&held).await;
        let rest = self.decoder.finish();
        self.keep(&rest);
        self.live.finish().await;
    }
}

#[cfg(test)]
mod tests;
