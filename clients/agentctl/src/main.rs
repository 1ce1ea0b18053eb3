//! The command-line client of agentd; everything is in the library.

fn main() {}
