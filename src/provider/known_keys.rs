//! The keys that the user's files hold, for hiding them.
//!
//! Pure.

use std::collections::HashSet;

use super::models_json::ProviderDef;
use super::spec::{Part, ValueSource};
use crate::config::env::SessionEnv;

/// Names and keys.
pub(super) type Named = Vec<(String, String)>;

/// Variables whose values are addresses of proxies, which may hold a password.
const PROXIES: [&str; 6] = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// Returns the keys that stand in definitions of providers: as keys, in headers, in addresses.
pub(super) fn in_definitions(providers: &[ProviderDef]) -> Named {
    let mut found = Vec::new();
    for provider in providers {
        let id = &provider.id;
        if let Some(key) = &provider.api_key {
            found.extend(literal(&format!("key of {id}"), key));
        }
        let models = || provider.models.iter().chain(&provider.overrides);
        let headers = provider.headers.iter().chain(models().flat_map(|model| &model.headers.0));
        for (name, value) in headers.filter(|(name, _)| is_telling(name)) {
            found.extend(literal(&format!("header {name} of {id}"), value));
        }
        let urls = provider.base_url.iter().chain(models().filter_map(|model| model.base_url.as_ref()));
        found.extend(urls.flat_map(|url| in_url(url)).map(|key| (format!("address of {id}"), key)));
    }
    found
}

/// Returns the keys in an environment: the values of the variables in `names`, and passwords of proxies.
pub(super) fn in_environment(env: &SessionEnv, names: &HashSet<String>) -> Named {
    let keys = names.iter().filter_map(|name| Some((name.clone(), env.get(name)?.trim().to_owned())));
    let proxies = PROXIES.iter().filter_map(|name| Some((*name, env.get(name)?)));
    let passwords = proxies.flat_map(|(name, url)| in_url(url).into_iter().map(|key| (name.to_owned(), key)));
    keys.chain(passwords).collect()
}

/// Tells whether values of a header are keys, by its name.
pub(super) fn is_telling(header: &str) -> bool {
    let name = header.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| name.contains(word))
}

/// Returns the text of a value that is not taken from elsewhere. "Bearer x" is repeated as "x".
pub(super) fn literal(name: &str, value: &str) -> Named {
    let texts = match ValueSource::parse(value) {
        ValueSource::Literal(value) => vec![value],
        ValueSource::Template(parts) => {
            let text = |part| if let Part::Text(text) = part { Some(text) } else { None };
            parts.into_iter().filter_map(text).collect()
        }
        ValueSource::Command(_) => Vec::new(),
    };
    let key = |text: &str| text.strip_prefix("Bearer ").unwrap_or(text).trim().to_owned();
    texts.iter().map(|text| (name.to_owned(), key(text.expose()))).collect()
}

/// Returns what in an address may be a key: the password, and the values of the query.
fn in_url(url: &str) -> Vec<String> {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let values = query.split('&').filter_map(|pair| pair.split_once('=')).map(|(_, value)| value);
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    let user = host.split('/').next().and_then(|host| host.rsplit_once('@')).map(|(user, _)| user);
    let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
    values.chain(password).map(str::to_owned).collect()
}

/// Returns an address as others may see it: without what may be a key.
pub(super) fn shown_url(url: &str) -> String {
    let hidden = in_url(url);
    let long_first = {
        let mut hidden: Vec<&String> = hidden.iter().filter(|key| !key.is_empty()).collect();
        hidden.sort_by_key(|key| std::cmp::Reverse(key.len()));
        hidden
    };
    long_first.into_iter().fold(url.to_owned(), |url, key| {
        let in_query = url.replace(&format!("={key}"), "=[redacted]");
        in_query.replace(&format!(":{key}@"), ":[redacted]@")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agentd_protocol::methods::EnvSource;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::provider::models_json;

    #[test]
    fn keys_of_a_file_are_found_wherever_they_stand() {
        let text = r#"{"providers": {
            "a": {"apiKey": "KEY-a", "baseUrl": "https://u:PASS@host/v1?key=QUERY&v=1", "api": "openai-completions",
                "headers": {"x-api-key": "HEADER", "Authorization": "Bearer BEARER", "x-title": "title"},
                "models": [{"id": "m", "headers": {"x-auth": "MODEL-$VAR"}}]},
            "b": {"apiKey": "$VAR"}, "c": {"apiKey": "!command"}}}"#;
        let (providers, faults) = models_json::parse(text);
        assert_eq!(faults, []);
        let mut found: Vec<String> =
            in_definitions(&providers).into_iter().map(|(name, key)| format!("{name}: {key}")).collect();
        found.sort();
        let expected = [
            "address of a: 1",
            "address of a: PASS",
            "address of a: QUERY",
            "header Authorization of a: BEARER",
            "header x-api-key of a: HEADER",
            "header x-auth of a: MODEL-",
            "key of a: KEY-a",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn keys_of_an_environment_are_those_of_providers_and_proxies() {
        let vars = [("OPENAI_API_KEY", "k1"), ("HTTPS_PROXY", "http://me:pass@proxy:1"), ("PATH", "/bin")];
        let vars: BTreeMap<_, _> = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let names = HashSet::from(["OPENAI_API_KEY".to_owned(), "OTHER".to_owned()]);
        let found = in_environment(&SessionEnv::new(vars, EnvSource::Client), &names);
        let expected = [("OPENAI_API_KEY", "k1"), ("HTTPS_PROXY", "pass")];
        assert_eq!(found, expected.map(|(name, key)| (name.to_owned(), key.to_owned())));
    }

    #[test]
    fn an_address_is_shown_without_keys() {
        for (url, shown) in [
            ("https://api.example/v1", "https://api.example/v1"),
            ("https://api.example/v1?key=sk-1&v=2", "https://api.example/v1?key=[redacted]&v=[redacted]"),
            ("http://me:secret@host:1/p@th", "http://me:[redacted]@host:1/p@th"),
            ("http://host/v1?", "http://host/v1?"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }
}
