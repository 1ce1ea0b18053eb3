//! Merges provider definitions of several files with the built-in ones, and makes models of them.
//!
//! Pure. What the user wrote wins over what is built in; of two files, the first wins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::model::{Model, ModelCost};
use serde_json::Value;

use super::anthropic_messages;
use super::builtin;
use super::models_json::{CostDef, ModelDef, ProviderDef};
use super::openai_completions::compat::Compat;
use super::registry::{ConfigNotice, Unsupported};
use super::spec::{
    API_ANTHROPIC_MESSAGES, API_OPENAI_COMPLETIONS, CostTier, ModelSpec, ProviderSpec, SamplingParams, ValueSource,
};

/// Context window of a model that does not tell (pi: the same).
const DEFAULT_CONTEXT_WINDOW: u64 = 128_000;
/// Longest response of a model that does not tell (pi: the same).
const DEFAULT_MAX_TOKENS: u64 = 16_384;

/// Definitions in the order of preference, each provider once.
#[derive(Default)]
pub(super) struct Definitions {
    providers: Vec<(ProviderDef, Option<PathBuf>)>,
}

/// What became of the definitions.
pub(super) struct Built {
    /// Models that can be asked.
    pub(super) models: Vec<Arc<ModelSpec>>,
    /// Models whose dialect is not spoken.
    pub(super) unsupported: Vec<Unsupported>,
    /// What was left aside.
    pub(super) notices: Vec<ConfigNotice>,
    /// Where the keys of each provider may come from; the first that gives one counts.
    pub(super) key_places: Vec<(String, Vec<(KeyPlace, ValueSource)>)>,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyPlace {
    /// A file of keys.
    AuthFile(PathBuf),
    /// A file that describes models.
    ModelsFile(PathBuf),
    /// A variable.
    Variable(&'static str),
}

/// Keys by provider, with the file that holds them.
pub(super) type KeyFiles = Vec<(PathBuf, Vec<(String, ValueSource)>)>;

impl Definitions {
    /// Adds the providers of a file. Models of a provider that an earlier file defined too are added to it.
    pub(super) fn add_file(&mut self, path: &Path, providers: Vec<ProviderDef>) {
        for provider in providers {
            match self.position(&provider.id) {
                Some(at) => add_models(&mut self.providers[at].0, provider),
                None => self.providers.push((provider, Some(path.to_path_buf()))),
            }
        }
    }

    /// Adds what is built in: whole providers, or what the user's definition of one leaves open.
    pub(super) fn add_builtin(&mut self, providers: Vec<ProviderDef>) {
        for builtin in providers {
            match self.position(&builtin.id) {
                Some(at) => complete(&mut self.providers[at].0, builtin),
                None => self.providers.push((builtin, None)),
            }
        }
    }

    /// Adds what was found on this machine: whole providers, or models that a definition of the same address lacks.
    pub(super) fn add_local(&mut self, providers: &[ProviderDef]) {
        for local in providers {
            match self.position(&local.id) {
                Some(at) if self.providers[at].0.base_url == local.base_url => {
                    add_models(&mut self.providers[at].0, local.clone());
                }
                // The user calls something else so.
                Some(_) => {}
                None => self.providers.push((local.clone(), None)),
            }
        }
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.providers.iter().position(|(provider, _)| provider.id == id)
    }
}

/// Adds the models of a later definition of the same provider, with that definition's own settings.
fn add_models(first: &mut ProviderDef, later: ProviderDef) {
    first.api_key = first.api_key.take().or(later.api_key);
    first.overrides.extend(later.overrides);
    for mut model in later.models {
        if first.models.iter().any(|known| known.id == model.id) {
            continue;
        }
        model.base_url = model.base_url.or_else(|| later.base_url.clone());
        model.api = model.api.or_else(|| later.api.clone());
        model.compat = merge(later.compat.clone(), model.compat);
        first.models.push(model);
    }
}

/// Lets a user's definition stand over a built-in one.
fn complete(own: &mut ProviderDef, builtin: ProviderDef) {
    own.base_url = own.base_url.take().or(builtin.base_url);
    own.api = own.api.take().or(builtin.api);
    own.compat = merge(builtin.compat, own.compat.take());
    for mut model in builtin.models {
        if own.models.iter().any(|known| known.id == model.id) {
            continue;
        }
        if let Some(change) = own.overrides.iter().find(|change| change.id == model.id) {
            model = changed(model, change.clone());
        }
        own.models.push(model);
    }
}

/// Applies an override; prices are changed one by one.
fn changed(model: ModelDef, change: ModelDef) -> ModelDef {
    let mut headers = model.headers;
    headers.0.extend(change.headers.0);
    ModelDef {
        id: model.id,
        name: change.name.or(model.name),
        api: model.api,
        base_url: model.base_url,
        reasoning: change.reasoning.or(model.reasoning),
        thinking_level_map: merge(model.thinking_level_map, change.thinking_level_map),
        prompt_cache: merge(model.prompt_cache, change.prompt_cache),
        input: change.input.or(model.input),
        cost: match (model.cost, change.cost) {
            (Some(old), Some(new)) => Some(CostDef {
                input: new.input.or(old.input),
                output: new.output.or(old.output),
                cache_read: new.cache_read.or(old.cache_read),
                cache_write: new.cache_write.or(old.cache_write),
                tiers: if new.tiers.is_empty() { old.tiers } else { new.tiers },
            }),
            (old, new) => new.or(old),
        },
        context_window: change.context_window.or(model.context_window),
        max_tokens: change.max_tokens.or(model.max_tokens),
        sampling_params: change.sampling_params.or(model.sampling_params),
        sampling_params_by_thinking_level: change
            .sampling_params_by_thinking_level
            .or(model.sampling_params_by_thinking_level),
        headers,
        compat: merge(model.compat, change.compat),
    }
}

/// Merges two objects; members of `over` win.
fn merge(base: Option<Value>, over: Option<Value>) -> Option<Value> {
    match (base, over) {
        (Some(Value::Object(mut base)), Some(Value::Object(over))) => {
            base.extend(over);
            Some(Value::Object(base))
        }
        (base, over) => over.or(base),
    }
}

/// Makes models of definitions. `keys` are those of files of keys; they go before all others.
pub(super) fn build(definitions: Definitions, keys: &KeyFiles) -> Built {
    let mut built = Built { models: Vec::new(), unsupported: Vec::new(), notices: Vec::new(), key_places: Vec::new() };
    for (def, path) in definitions.providers {
        let places = key_places(&def, path.as_deref(), keys);
        let provider = Arc::new(ProviderSpec {
            id: def.id.clone(),
            keys: places.iter().map(|(_, source)| source.clone()).collect(),
            auth_header: def.auth_header,
            is_keyless: def.is_keyless,
        });
        built.key_places.push((def.id.clone(), places));
        for model in &def.models {
            match make(model, &def, &provider) {
                Ok(spec) => built.models.push(Arc::new(spec)),
                Err(Unusable::Api(api)) => {
                    built.unsupported.push(Unsupported { name: format!("{}/{}", def.id, model.id), api });
                }
                Err(Unusable::Missing(field)) => built.notices.push(ConfigNotice {
                    path: path.clone().unwrap_or_default(),
                    place: None,
                    message: format!("provider {}: model {}: no {field}", def.id, model.id),
                }),
            }
        }
    }
    built
}

fn key_places(def: &ProviderDef, path: Option<&Path>, keys: &KeyFiles) -> Vec<(KeyPlace, ValueSource)> {
    let from_files = keys.iter().flat_map(|(file, keys)| {
        let own = keys.iter().filter(|(id, _)| *id == def.id);
        own.map(|(_, source)| (KeyPlace::AuthFile(file.clone()), source.clone()))
    });
    let configured = def.api_key.as_deref().map(|text| {
        let file = path.map(Path::to_path_buf).unwrap_or_default();
        (KeyPlace::ModelsFile(file), ValueSource::parse(text))
    });
    let usual = builtin::key_variables(&def.id).map(|name| (KeyPlace::Variable(name), ValueSource::variable(name)));
    from_files.chain(configured).chain(usual).collect()
}

/// Why a definition gives no model.
enum Unusable {
    /// It speaks this dialect.
    Api(String),
    /// It lacks this field.
    Missing(&'static str),
}

fn make(def: &ModelDef, provider_def: &ProviderDef, provider: &Arc<ProviderSpec>) -> Result<ModelSpec, Unusable> {
    let api = def.api.clone().or_else(|| provider_def.api.clone()).ok_or(Unusable::Missing("api"))?;
    if ![API_OPENAI_COMPLETIONS, API_ANTHROPIC_MESSAGES].contains(&api.as_str()) {
        return Err(Unusable::Api(api));
    }
    let base_url =
        def.base_url.clone().or_else(|| provider_def.base_url.clone()).ok_or(Unusable::Missing("baseUrl"))?;
    let compat = merge(provider_def.compat.clone(), def.compat.clone());
    let headers = provider_def
        .headers
        .iter()
        .filter(|(name, _)| !def.headers.0.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
    let headers = headers.chain(&def.headers.0).map(|(name, value)| (name.clone(), ValueSource::parse(value)));
    let cost = def.cost.clone().unwrap_or_default();
    Ok(ModelSpec {
        headers: headers.collect(),
        tiers: tiers(&cost),
        sampling: SamplingParams {
            always: def.sampling_params.clone().unwrap_or_default(),
            by_level: def.sampling_params_by_thinking_level.clone().unwrap_or_default(),
        },
        compat: Compat::resolve(&provider.id, &base_url, compat.as_ref()).of_model(&provider.id, &def.id),
        anthropic: anthropic_messages::compat::Compat::resolve(compat.as_ref()),
        provider: Arc::clone(provider),
        model: Model {
            id: def.id.clone(),
            name: def.name.clone().unwrap_or_else(|| def.id.clone()),
            api,
            provider: provider.id.clone(),
            base_url,
            reasoning: def.reasoning.unwrap_or(false),
            input: def.input.clone().unwrap_or_else(|| vec!["text".to_owned()]),
            cost: ModelCost {
                input: cost.input.unwrap_or(0.0),
                output: cost.output.unwrap_or(0.0),
                cache_read: cost.cache_read.unwrap_or(0.0),
                cache_write: cost.cache_write.unwrap_or(0.0),
            },
            context_window: def.context_window.unwrap_or(DEFAULT_CONTEXT_WINDOW),
            max_tokens: def.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
            thinking_level_map: def.thinking_level_map.clone(),
            prompt_cache: def.prompt_cache.clone(),
            compat,
        },
    })
}

fn tiers(cost: &CostDef) -> Vec<CostTier> {
    let mut tiers: Vec<_> = cost
        .tiers
        .iter()
        .map(|tier| CostTier { input_tokens_above: tier.input_tokens_above, cost: tier.cost })
        .collect();
    tiers.sort_by_key(|tier| tier.input_tokens_above);
    tiers
}
