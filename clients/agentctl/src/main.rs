//! The command-line client of agentd.

use std::process::ExitCode;

fn main() -> ExitCode {
    agentctl::run(std::env::args_os())
}
