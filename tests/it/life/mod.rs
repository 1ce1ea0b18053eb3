//! What must survive: kills, restarts, damaged files, many starts at once, signals.

mod activation;
mod command_line;
mod environment;
mod index;
mod leftovers;
mod limits;
mod queues;
mod reach;
mod restart;
mod shutdown;
mod single;
mod stdio;
mod storage;
mod system_prompt;
