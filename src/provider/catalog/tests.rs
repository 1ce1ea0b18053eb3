use std::collections::BTreeMap;
use std::path::Path;

use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;

use super::*;
use crate::config::env::SessionEnv;

fn names(registry: &ModelRegistry) -> Vec<String> {
    let env = SessionEnv::new(BTreeMap::new(), EnvSource::Client);
    registry.available(&env).iter().map(|spec| spec.name()).collect()
}

fn models(ids: &[&str]) -> String {
    let models: Vec<String> = ids.iter().map(|id| format!("{{\"id\": \"{id}\"}}")).collect();
    let head = r#"{"providers": {"p": {"baseUrl": "http://x", "api": "openai-completions", "apiKey": "k", "models": ["#;
    format!("{head}{}]}}}}}}", models.join(", "))
}

fn said(registry: &ModelRegistry, dir: &Path) -> Vec<String> {
    let shorten = |notice: &dyn std::fmt::Display| notice.to_string().replace(&format!("{}/", dir.display()), "");
    registry.notices().iter().map(|notice| shorten(notice)).collect()
}

#[test]
fn a_changed_file_is_read_again_and_an_unchanged_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("models.json");
    let catalog = Catalog::load(std::slice::from_ref(&file), &[], &LocalModels::Off);
    assert_eq!(names(&catalog.registry()), ["demo/demo"]);
    std::fs::write(&file, models(&["a"])).unwrap();
    assert_eq!(names(&catalog.registry()), ["demo/demo"], "nobody has looked at the file");
    let first = catalog.refresh();
    assert_eq!(names(&first), ["p/a", "demo/demo"]);
    assert!(Arc::ptr_eq(&first, &catalog.refresh()), "nothing is made anew");
    std::fs::write(&file, models(&["b"])).unwrap();
    assert_eq!(names(&catalog.refresh()), ["p/b", "demo/demo"], "a change that leaves the size as it was");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(names(&catalog.refresh()), ["demo/demo"]);
}

#[test]
fn a_broken_edit_leaves_the_last_good_definitions_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("models.json");
    std::fs::write(&file, models(&["a"])).unwrap();
    let catalog = Catalog::load(std::slice::from_ref(&file), &[], &LocalModels::Off);
    for (broken, fault) in [
        ("{\"providers\": {7}}", "models.json:1:16: key must be a string"),
        ("", "models.json:1:1: EOF while parsing a value"),
        (
            r#"{"providers": {"p": {"baseUrl": 5}}}"#,
            "models.json:1:33: provider p: invalid type: integer `5`, expected a string",
        ),
    ] {
        std::fs::write(&file, broken).unwrap();
        let registry = catalog.refresh();
        assert_eq!(names(&registry), ["p/a", "demo/demo"], "{broken}");
        assert_eq!(said(&registry, dir.path()), [format!("{fault}; what the file said before goes on to hold")]);
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(names(&catalog.refresh()), ["p/a", "demo/demo"], "no file can be read there");
    std::fs::remove_dir(&file).unwrap();
    std::fs::write(&file, models(&["b"])).unwrap();
    let mended = catalog.refresh();
    assert_eq!((names(&mended), said(&mended, dir.path())), (vec!["p/b".to_owned(), "demo/demo".to_owned()], vec![]));
}

#[test]
fn a_file_that_never_was_sound_is_used_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("models.json");
    let with_fault = |id: &str| models(&[id]).replace("\"models\": [", "\"models\": [{\"id\": 5}, ");
    std::fs::write(&file, with_fault("a")).unwrap();
    let catalog = Catalog::load(std::slice::from_ref(&file), &[], &LocalModels::Off);
    assert_eq!(names(&catalog.registry()), ["p/a", "demo/demo"]);
    std::fs::write(&file, with_fault("b")).unwrap();
    let registry = catalog.refresh();
    assert_eq!((names(&registry)[0].as_str(), registry.notices().len()), ("p/b", 1));
}

#[test]
fn keys_are_read_again_too() {
    let dir = tempfile::tempdir().unwrap();
    let auth = dir.path().join("auth.json");
    let catalog = Catalog::load(&[], std::slice::from_ref(&auth), &LocalModels::Off);
    std::fs::write(&auth, r#"{"groq": {"type": "api_key", "key": "sk-CANARY123"}}"#).unwrap();
    assert!(names(&catalog.refresh()).iter().any(|name| name.starts_with("groq/")));
    std::fs::write(&auth, "{\"groq\": sk-CANARY123").unwrap();
    let registry = catalog.refresh();
    assert!(names(&registry).iter().any(|name| name.starts_with("groq/")), "a half-written file takes no key away");
    let said = said(&registry, dir.path());
    assert_eq!(said, ["auth.json:1:10: is not valid JSON; what the file said before goes on to hold"]);
}
