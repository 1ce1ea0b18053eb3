//! No method is without tests of its own, besides those that hold for all of them (`rpc/params.rs`).

use agentd_protocol::methods::REGISTRY;

use super::{assert_none, read, rust_files};

#[test]
fn every_method_is_called_by_a_test() {
    let own = |file: &std::path::PathBuf| !file.ends_with("params.rs");
    let texts: Vec<_> = rust_files("tests/it/rpc").into_iter().filter(own).map(|file| read(&file)).collect();
    let faults: Vec<_> = REGISTRY
        .iter()
        .filter(|method| !texts.iter().any(|text| text.contains(&format!("\"{}\"", method.name))))
        .map(|method| format!("{}: no test in tests/it/rpc calls it", method.name))
        .collect();
    assert_none(&faults);
}
