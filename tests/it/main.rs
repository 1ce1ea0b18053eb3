//! Black-box tests: the real programs, over the real socket and stdio, against a scripted model server.

mod tidy;
