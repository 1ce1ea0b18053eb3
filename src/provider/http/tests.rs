use std::collections::BTreeMap;

use agentd_protocol::methods::EnvSource;
use pretty_assertions::assert_eq;

use super::*;

fn env(vars: &[(&str, &str)]) -> SessionEnv {
    let vars: BTreeMap<_, _> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    SessionEnv::new(vars, EnvSource::Client)
}

#[test]
fn base_urls_are_joined() {
    for (base, expected) in [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        (" https://h:8443/a/b ", "https://h:8443/a/b/chat/completions"),
        ("https://h/v1?api-version=2", "https://h/v1/chat/completions?api-version=2"),
    ] {
        assert_eq!(join(base, "chat/completions").unwrap().as_str(), expected, "{base}");
    }
    for base in
        ["", "h/v1", "ftp://h/v1", "file:///etc", "unix:/x", "https://user:sk-CANARY123@", "htp://u:p?sk-CANARY123@h"]
    {
        let error = join(base, "x").unwrap_err();
        assert_eq!(error.class, ErrorClass::BadRequest, "{base}");
        assert!(!error.message.contains("CANARY"), "{}", error.message);
    }
}

#[test]
fn headers_that_http_forbids_are_refused_without_their_value() {
    let mut headers = HeaderMap::new();
    for (name, value) in [("bad name", "x"), ("x-a", "sk-CANARY123\u{0}"), ("", "x"), ("x-b", "a\nb")] {
        let error = add_header(&mut headers, name, &Secret::new(value)).unwrap_err();
        assert!(!error.message.contains("CANARY"), "{}", error.message);
    }
    add_header(&mut headers, "X-Key", &Secret::new("sk-CANARY123")).unwrap();
    assert!(!format!("{headers:?}").contains("CANARY"));
}

#[test]
fn one_pool_for_each_proxy_setting() {
    let connections = Connections::default();
    let url = |text: &str| Url::parse(text).unwrap();
    let key = |target: &str, vars: &[(&str, &str)]| PoolKey::of(&url(target), &env(vars), &ProviderClocks::default());
    let proxy = [("HTTP_PROXY", "http://p:1")];
    assert_eq!(key("http://a", &proxy), key("http://b", &[("http_proxy", "http://p:1")]));
    assert_ne!(key("http://a", &proxy), key("http://a", &[]));
    assert_ne!(key("http://a", &[]), key("https://a", &[]));
    for at in 0..2 * MAX_POOLS {
        connections.client(key("http://a", &[("HTTP_PROXY", &format!("http://p:{}", at + 1))])).unwrap();
        connections.client(key("http://a", &[])).unwrap();
    }
    assert!(connections.pools.lock().unwrap().len() <= MAX_POOLS);
}

#[test]
fn a_proxy_that_is_none_is_refused_without_its_value() {
    let key = PoolKey { http_proxy: Some("::sk-CANARY123".into()), ..PoolKey::default() };
    let error = Connections::default().client(key).unwrap_err();
    let expected = "HTTP_PROXY (or ALL_PROXY) of the session's environment is no address of an http or https proxy";
    assert_eq!(error.message, expected);
}
