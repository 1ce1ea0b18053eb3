//! The daemon; everything is in the library.

fn main() {}
