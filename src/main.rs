//! The program `agentd`; everything is in the library.

use std::ffi::OsString;
use std::process::ExitCode;

use agentd::bench::{self, BenchOptions};
use agentd::daemon::{ServeOptions, serve};
use agentd::exec::{HELPER_ARGUMENT, run_exec_helper};
use agentd::fronts;
use agentd_protocol::version::LONG_VERSION;
use clap::{Parser, Subcommand};

/// A local daemon that hosts coding-agent sessions and streams them over JSON-RPC
#[derive(Parser)]
#[command(name = "agentd", version = LONG_VERSION, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon in the foreground
    ///
    /// One runs for each user. Clients start it by themselves if need be; systemd can do it as well.
    #[command(after_help = "Exit codes: 0 after an ordered stop, 69 when another daemon runs, 2 for a --set that\n\
        cannot be used, 1 on other failures.\n\
        AGENTD_LOG sets the level of the log: off, error, warn, info (the default), debug or trace.\n\
        AGENTD_SOCKET sets the path of the socket.")]
    Serve {
        /// Leave the session and the descriptors of the client that starts the daemon
        #[arg(long, hide = true)]
        detached: bool,
        /// Set something for this daemon, whatever files and variables say; `agentctl config show` lists the keys
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Speak JSON-RPC on stdin and stdout, for an editor
    ///
    /// Starts the daemon if none runs. The end of stdin only detaches: answers to what was sent before still come,
    /// and sessions go on.
    #[command(after_help = "Exit codes: 0 at the end of stdin, 75 when there is no daemon or it went away.")]
    Stdio {
        /// Name by which other clients see this one
        #[arg(long, default_value = "agentd stdio")]
        name: String,
    },
    /// See it work: no key, no network, real tools, two clients watching one session
    Demo,
    /// Measure what the daemon costs on this machine, beside its targets
    ///
    /// Uses a model server, a daemon and a home of its own, and removes them again. Takes one to two minutes.
    #[command(
        after_help = "Exit codes: 0 when everything could be measured, whatever came out; 1 when something could \
        not; 130 after Ctrl-C."
    )]
    Bench(BenchOptions),
    /// The command-line client (the same as agentctl): run, attach, ls, tail and more
    #[command(disable_help_flag = true)]
    Ctl {
        /// What to do; `help` lists it
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    // Before everything else: each command that a tool runs starts here.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == HELPER_ARGUMENT) {
        run_exec_helper();
    }
    match Cli::parse().command {
        Command::Serve { detached, set } => serve(ServeOptions { detached, set }),
        Command::Stdio { name } => fronts::stdio::run(&name),
        Command::Demo => agentctl::demo(),
        Command::Bench(options) => bench::run(&options),
        Command::Ctl { args } => agentctl::run(std::iter::once("agentctl".into()).chain(args)),
    }
}
