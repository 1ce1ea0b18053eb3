//! What must survive: kills, restarts, damaged files, many starts at once, signals.

mod environment;
mod index;
mod leftovers;
mod restart;
mod shutdown;
mod single;
mod stdio;
mod system_prompt;
