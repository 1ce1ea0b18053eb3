//! What goes to providers and comes from them, a file for each dialect.

mod messages;
