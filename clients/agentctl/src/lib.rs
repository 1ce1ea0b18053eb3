//! The command-line client of agentd, as a library so that `agentd ctl` can call it too.
//!
//! [`run`] reads a command line, talks to the daemon and returns an exit code; [`demo()`] is `agentd demo`. `cli` says
//! what can be typed, `verbs` what it does, `show` what people see; `follow` is shared by the verbs that wait for an
//! answer.

use std::ffi::OsString;
use std::process::ExitCode;

use agentd_protocol::client::ClientError;
use anyhow::Result;
use clap::Parser;
use serde_json::json;

mod answering;
mod cli;
mod console;
mod demo;
mod exit;
#[cfg(test)]
mod fake;
mod follow;
mod input;
mod link;
mod now;
mod session_ref;
mod show;
mod verbs;

use cli::{Cli, Verb};
use console::Console;
use exit::Exit;
use link::{Link, Start};

/// Runs one command line, whose first item is the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be done when the reader has left.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() };
        }
    };
    in_runtime(cli.json, async |console| dispatch(cli.verb, console).await)
}

/// Runs the demo: a session of the built-in model with two clients.
pub fn demo() -> ExitCode {
    in_runtime(false, demo::run)
}

fn in_runtime(json: bool, work: impl AsyncFnOnce(&mut Console) -> Result<Exit>) -> ExitCode {
    let outcome = Console::of_process(json).map_err(anyhow::Error::from).and_then(|mut console| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let exit = runtime.block_on(work(&mut console));
        // A thread that reads the terminal does not end by itself.
        runtime.shutdown_background();
        let flushed = console.out.flush();
        Ok(exit.and_then(|exit| flushed.map(|()| exit).map_err(anyhow::Error::from)))
    });
    outcome.flatten().unwrap_or_else(|error| report(&error, json)).into()
}

async fn dispatch(verb: Verb, console: &mut Console) -> Result<Exit> {
    match verb {
        Verb::Run(args) => {
            let message = input::read_message(&args.message, &mut console.err)?;
            let answers = answering::can_answer(console) && !args.quiet && !args.detach;
            let mut link = Link::open_as(link::NAME, Start::IfNeeded, answers, console).await?;
            verbs::run::run(&mut link, console, &args, message).await
        }
        Verb::Send(args) => {
            let message = input::read_message(&args.message, &mut console.err)?;
            verbs::send::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args, message).await
        }
        Verb::Attach(args) => {
            // A script that ends its input would wait for ever for the end of a run that asks.
            let answers = !args.read_only && console.in_is_terminal;
            let mut link = Link::open_as(link::NAME, Start::IfNeeded, answers, console).await?;
            verbs::attach::run(&mut link, console, &args).await
        }
        Verb::Ls(args) => verbs::ls::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args).await,
        Verb::Approvals(args) => {
            verbs::approvals::list(&mut Link::open(Start::IfNeeded, console).await?, console, &args).await
        }
        Verb::Approve(args) => {
            verbs::approvals::approve(&mut Link::open(Start::IfNeeded, console).await?, console, args).await
        }
        Verb::Deny(args) => {
            verbs::approvals::deny(&mut Link::open(Start::IfNeeded, console).await?, console, args).await
        }
        Verb::Trust(args) => {
            verbs::trust::trust(&mut Link::open(Start::IfNeeded, console).await?, console, &args).await
        }
        Verb::Untrust(args) => {
            verbs::trust::untrust(&mut Link::open(Start::IfNeeded, console).await?, console, &args).await
        }
        Verb::Rules(args) => {
            verbs::rules::run(&mut Link::open(Start::IfNeeded, console).await?, console, args.action).await
        }
        Verb::Tail(args) => verbs::tail::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args).await,
        Verb::Abort(args) => {
            verbs::abort::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args.sessions).await
        }
        Verb::Wait(args) => {
            verbs::wait::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args.sessions).await
        }
        Verb::Models(args) => {
            verbs::models::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args).await
        }
        Verb::Auth(args) => verbs::auth::run(console, args.action).await,
        Verb::Config(args) => {
            verbs::config::run(&mut Link::open(Start::IfNeeded, console).await?, console, args.action).await
        }
        Verb::Daemon(args) => verbs::daemon::run(console, args.action).await,
        Verb::Rpc(args) => {
            let params = verbs::rpc::params(&args)?;
            verbs::rpc::run(&mut Link::open(Start::IfNeeded, console).await?, console, &args, params).await
        }
    }
}

/// Tells on standard error what failed, and returns the exit code. A reader that has left is not told.
fn report(error: &anyhow::Error, as_json: bool) -> Exit {
    use std::io::Write;
    let Some(exit) = Exit::of_error(error) else { return Exit::Done };
    let text = show::clean::clean(&format!("{error:#}"));
    let line = if as_json {
        let kind = error.downcast_ref::<ClientError>().and_then(ClientError::kind);
        json!({"error": {"kind": kind, "message": text, "exitCode": exit as u8}}).to_string()
    } else {
        format!("agentctl: {text}")
    };
    // There is nowhere else to tell it.
    let _ = writeln!(std::io::stderr(), "{line}");
    exit
}
