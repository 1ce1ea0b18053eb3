//! The command-line client of agentd.
