//! The golden runner: plays recordings of pi 1.6.0 against the daemon and compares what comes out.
//!
//! A recording is a setup (files, models, settings, the model server's script) and a transcript. Its `in` records are
//! sent as JSON-RPC requests at the same place of the event stream, against a scripted server that says the same as
//! the recorded one. Three things are compared, each in lanes whose order means something (see [`lanes`]):
//! events in the shapes of the `full` view, with the answers to requests; the entries of the session file; and the
//! requests sent to the model. What differs on purpose is a row of `differences.json`, with its reason, and nothing
//! else may differ; a row that no recording needs any more fails too. A step that cannot be performed is a failure.

mod besides;
mod canonical;
mod compare;
mod differences;
mod lanes;
mod player;
mod recording;
mod report;
mod requests;
