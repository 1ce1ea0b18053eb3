//! Which models a part of a name fits, and which of several is meant.
//!
//! Pure. Letter case and the marks between words (`-`, `.`, `_`, blank) do not matter. Of models that differ in
//! version or date alone, the newest is meant, and an alias rather than an id with a date.

/// A name that can be looked for: where it stands and what it is called.
pub(super) trait Named {
    /// Id of its provider.
    fn provider(&self) -> &str;
    /// Its id there.
    fn id(&self) -> &str;
}

/// How well a part fits a name; better ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fit {
    /// The name ends with it, at the beginning of a word.
    End,
    /// It stands in the name at the beginning of a word.
    Word,
    /// It stands somewhere in the name.
    Inside,
}

/// Shortest part that is looked for: a single letter fits nearly everything.
const MIN_PART_CHARS: usize = 2;

/// Returns those of `models` that `part` fits best, of versions the newest only; `provider/part` is looked for in that
/// provider's models first. In the order of `models`.
pub(super) fn fitting<'m, M: Named>(models: &[&'m M], part: &str, worst: Fit) -> Vec<&'m M> {
    if let Some((provider, rest)) = part.split_once('/') {
        let own = models.iter().copied().filter(|model| model.provider().eq_ignore_ascii_case(provider));
        let found = best(own, rest, worst);
        if !found.is_empty() {
            return newest(found);
        }
    }
    newest(best(models.iter().copied(), part, worst))
}

fn best<'m, M: Named + 'm>(models: impl Iterator<Item = &'m M>, part: &str, worst: Fit) -> Vec<&'m M> {
    let part = folded(part);
    if part.chars().count() < MIN_PART_CHARS {
        return Vec::new();
    }
    let fitting = models.filter_map(|model| Some((fit(&folded(model.id()), &part)?, model)));
    let fitting: Vec<_> = fitting.filter(|(fit, _)| *fit <= worst).collect();
    let Some(best) = fitting.iter().map(|(fit, _)| *fit).min() else { return Vec::new() };
    fitting.into_iter().filter(|(fit, _)| *fit == best).map(|(_, model)| model).collect()
}

fn folded(name: &str) -> String {
    name.trim().chars().map(|c| if is_mark(c) { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn is_mark(c: char) -> bool {
    matches!(c, '-' | '.' | '_' | ' ' | ':' | '@')
}

fn fit(name: &str, part: &str) -> Option<Fit> {
    let begins_word = |at: usize| at == 0 || matches!(name.as_bytes()[at - 1], b'-' | b'/');
    let mut found = None;
    for (at, _) in name.match_indices(part) {
        let fit = match begins_word(at) {
            true if at + part.len() == name.len() => Fit::End,
            true => Fit::Word,
            false => Fit::Inside,
        };
        found = Some(found.map_or(fit, |found: Fit| found.min(fit)));
    }
    found
}

/// Keeps of each kind of model at a provider the newest.
fn newest<M: Named>(models: Vec<&M>) -> Vec<&M> {
    let mut kept: Vec<(&M, Version)> = Vec::new();
    for model in models {
        let version = Version::of(model.id());
        let is_kin =
            |(other, known): &&mut (&M, Version)| other.provider() == model.provider() && known.kind == version.kind;
        match kept.iter_mut().find(is_kin) {
            Some(known) if known.1.age() < version.age() => *known = (model, version),
            Some(_) => {}
            None => kept.push((model, version)),
        }
    }
    kept.into_iter().map(|(model, _)| model).collect()
}

/// An id taken apart.
#[derive(Debug, PartialEq)]
struct Version {
    /// The id without numbers of versions and without a date.
    kind: String,
    numbers: Vec<u32>,
    date: Option<String>,
}

impl Version {
    fn of(id: &str) -> Self {
        let mut version = Self { kind: String::new(), numbers: Vec::new(), date: None };
        let id = folded(id);
        for word in id.split(['-', '/']) {
            match word.find(|c: char| c.is_ascii_digit()) {
                _ if word == "latest" => {}
                Some(0) if is_number(word) && word.len() >= 4 => {
                    version.date.get_or_insert_default().push_str(word);
                }
                // Month and day of a date in three parts.
                Some(0) if is_number(word) && word.len() == 2 && version.date.is_some() => {
                    version.date.get_or_insert_default().push_str(word);
                }
                // As in k3 or qwen3; a number before letters, as in 27b, is no version.
                Some(at) if is_number(&word[at..]) => {
                    version.add(&word[..at]);
                    version.numbers.extend(word[at..].parse::<u32>());
                }
                _ => version.add(word),
            }
        }
        version
    }

    fn add(&mut self, word: &str) {
        if !word.is_empty() {
            self.kind.push('-');
            self.kind.push_str(word);
        }
    }

    /// Orders versions of one kind: by number, then aliases after dated ids, then by date.
    fn age(&self) -> (&[u32], bool, Option<&str>) {
        (&self.numbers, self.date.is_none(), self.date.as_deref())
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    struct Name(&'static str, &'static str);

    impl Named for Name {
        fn provider(&self) -> &str {
            self.0
        }

        fn id(&self) -> &str {
            self.1
        }
    }

    #[track_caller]
    fn check(names: &'static [&'static str], part: &str, expected: &[&str]) {
        let names: Vec<Name> = names.iter().map(|name| Name("p", name)).collect();
        let found: Vec<&str> =
            fitting(&names.iter().collect::<Vec<_>>(), part, Fit::Inside).iter().map(|name| name.1).collect();
        assert_eq!(found, expected, "{part}");
    }

    #[test]
    fn the_best_fit_wins() {
        let names = &["big-sonnet-5", "sonnet-5-mini", "mysonnet-5", "other"];
        check(names, "sonnet-5", &["big-sonnet-5"]);
        check(names, "sonnet", &["big-sonnet-5", "sonnet-5-mini"]);
        check(names, "ysonn", &["mysonnet-5"]);
        check(names, "SONNET 5.Mini", &["sonnet-5-mini"]);
        check(names, "x", &[]);
        check(names, "", &[]);
    }

    #[test]
    fn of_versions_the_newest_is_meant() {
        check(&["c-sonnet-4-6", "c-sonnet-5", "c-sonnet-5-5", "c-sonnet-4-5-20250929"], "sonnet", &["c-sonnet-5-5"]);
        check(&["m-2507", "m-2512", "m-2508"], "m-25", &["m-2512"]);
        check(&["m-2507", "m-latest", "m-2512"], "m-", &["m-latest"]);
        check(&["gpt-4o-2024-05-13", "gpt-4o-2024-11-20", "gpt-4o"], "gpt-4", &["gpt-4o"]);
        check(&["gpt-4o-2024-05-13", "gpt-4o-2024-11-20"], "gpt-4o", &["gpt-4o-2024-11-20"]);
        check(&["kimi-k2.6", "kimi-k3", "kimi-k3.1-pro"], "kimi", &["kimi-k3", "kimi-k3.1-pro"]);
    }

    #[test]
    fn sizes_are_no_versions() {
        check(&["gpt-oss-20b", "gpt-oss-120b"], "oss", &["gpt-oss-20b", "gpt-oss-120b"]);
        check(&["qwen3.7-max", "qwen3.8-27b", "qwen3.6-27b"], "qwen3", &["qwen3.7-max", "qwen3.8-27b"]);
    }

    #[test]
    fn the_same_model_of_two_providers_is_two() {
        let names = [Name("a", "x-1"), Name("b", "v/x-2")];
        let names: Vec<&Name> = names.iter().collect();
        assert_eq!(fitting(&names, "x", Fit::Word).len(), 0, "a single letter");
        assert_eq!(fitting(&names, "x-", Fit::Word).len(), 2);
        assert_eq!(fitting(&names, "A/x-", Fit::Word).len(), 1);
        assert_eq!(fitting(&names, "v/x-", Fit::Word).len(), 1);
    }
}
