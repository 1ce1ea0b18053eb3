use std::collections::BTreeMap;
use std::path::PathBuf;

use agentd_protocol::SessionId;
use agentd_protocol::message::ThinkingLevel;
use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;

use super::*;
use crate::config::env::SessionEnv;
use crate::provider::demo;
use crate::provider::spec::ProviderSpec;

fn request(keys: &[&str], vars: &[(&str, &str)], auth_header: bool) -> ModelRequest {
    let mut spec = demo::spec();
    spec.model.reasoning = true;
    let keys = keys.iter().map(|text| ValueSource::parse(text)).collect();
    spec.provider = Arc::new(ProviderSpec { id: "anthropic".into(), keys, auth_header, is_keyless: false });
    let vars: BTreeMap<_, _> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    ModelRequest {
        spec: Arc::new(spec),
        messages: Vec::new(),
        thinking: ThinkingLevel::High,
        env: SessionEnv::new(vars, EnvSource::Client),
        cwd: PathBuf::from("/"),
        session_id: SessionId::new("s"),
        clocks: crate::config::ProviderClocks::default(),
        demo_delay: std::time::Duration::ZERO,
        pace: crate::provider::Pace::default(),
    }
}

#[test]
fn a_base_may_name_the_version_or_not() {
    for (base, expected) in [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages?beta=true"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages?beta=true"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages?beta=true"),
        ("http://x/anthropic/v1/?a=b", "http://x/anthropic/v1/messages?a=b&beta=true"),
    ] {
        assert_eq!(Messages::url(base).unwrap().as_str(), expected, "{base}");
    }
    assert!(Messages::url("nothing").is_err());
}

#[test]
fn keys_and_tokens_have_their_own_headers() {
    let usual = ["$ANTHROPIC_API_KEY", "$ANTHROPIC_AUTH_TOKEN"];
    for (name, keys, vars, auth_header, expected) in [
        ("a key", &["k"][..], &[][..], false, ("x-api-key", "k")),
        ("as the configuration says", &["k"], &[], true, ("authorization", "Bearer k")),
        ("a token of a log-in", &["sk-ant-oat01-x"], &[], false, ("authorization", "Bearer sk-ant-oat01-x")),
        ("a key's variable", &usual, &[("ANTHROPIC_API_KEY", "k")], false, ("x-api-key", "k")),
        ("a token's variable", &usual, &[("ANTHROPIC_AUTH_TOKEN", "t")], false, ("authorization", "Bearer t")),
    ] {
        let request = request(keys, vars, auth_header);
        let key = request.spec.provider.keys.iter().find_map(|source| source.value(&request.env)).unwrap();
        let (header, value) = Messages::auth(&request, &key);
        assert_eq!((header, value.expose()), expected, "{name}");
    }
}

#[test]
fn versions_and_beta_features_are_named() {
    let betas = |key: &str| {
        let headers = Messages::headers(&request(&[key], &[], false), &Secret::new(key));
        assert_eq!(headers[0], ("anthropic-version", "2023-06-01".to_owned()));
        headers[1].clone()
    };
    assert_eq!(betas("k"), ("anthropic-beta", "interleaved-thinking-2025-05-14".to_owned()));
    let both = "interleaved-thinking-2025-05-14,oauth-2025-04-20".to_owned();
    assert_eq!(betas("sk-ant-oat01-x"), ("anthropic-beta", both));
}
