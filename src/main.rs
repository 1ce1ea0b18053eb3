//! The daemon; everything is in the library.

fn main() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == agentd::exec::HELPER_ARGUMENT) {
        agentd::exec::run_exec_helper();
    }
}
