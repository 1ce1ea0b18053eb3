//! Connections over in-memory pipes, with made-up sessions behind them.

mod attach;
mod client;
mod envelope;
mod fake;
mod lag;
mod methods;
mod order;
mod pages;
mod schedules;
mod shutdown;
mod stock_client;
mod storm;
mod watch;
