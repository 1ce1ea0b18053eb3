//! What servers on this machine say of their models.
//!
//! Pure. Each says it in its own way: vLLM and llama.cpp in the list itself, Ollama and LM Studio in interfaces of
//! their own beside it.

// From core: addresses alone, no sockets.
use core::net::SocketAddr;

use serde_json::{Value, json};

use crate::provider::models_json::{ModelDef, ProviderDef};
use crate::provider::spec::API_OPENAI_COMPLETIONS;

/// Window of a model whose server tells none, in tokens: what such servers give at least to a model of the present.
const DEFAULT_WINDOW: u64 = 32_768;
/// Longest response, in tokens, where the window has room for it.
const MAX_RESPONSE: u64 = 16_384;
/// Most models of one server.
const MAX_MODELS: usize = 1000;
/// Longest id of a model that is taken, in bytes.
const MAX_ID_BYTES: usize = 256;
/// Words in ids of models that do not chat.
const OTHER_THAN_CHAT: &[&str] = &["embed", "rerank", "whisper"];

/// A program that serves models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// ollama.com
    Ollama,
    /// llama-server of github.com/ggml-org/llama.cpp
    LlamaCpp,
    /// lmstudio.ai
    LmStudio,
    /// vllm.ai
    Vllm,
}

impl Kind {
    /// All of them, in the order in which their models are listed.
    pub(super) const ALL: [Self; 4] = [Self::Ollama, Self::LlamaCpp, Self::LmStudio, Self::Vllm];

    /// Returns the port on which it listens unless told otherwise.
    pub(super) fn default_port(self) -> u16 {
        match self {
            Self::Ollama => 11_434,
            Self::LlamaCpp => 8080,
            Self::LmStudio => 1234,
            Self::Vllm => 8000,
        }
    }

    fn provider(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::LlamaCpp => "llama.cpp",
            Self::LmStudio => "lmstudio",
            Self::Vllm => "vllm",
        }
    }

    /// Returns the program that writes this as the owner of its models.
    fn of_owner(owner: &str) -> Option<Self> {
        match owner {
            "library" => Some(Self::Ollama),
            "llamacpp" => Some(Self::LlamaCpp),
            "organization_owner" => Some(Self::LmStudio),
            "vllm" => Some(Self::Vllm),
            _ => None,
        }
    }
}

/// A server and its models.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) address: SocketAddr,
    pub(super) kind: Option<Kind>,
    models: Vec<FoundModel>,
}

#[derive(Debug)]
struct FoundModel {
    id: String,
    window: Option<u64>,
    /// A window that the model was made for; what it is served with may be smaller.
    trained_window: Option<u64>,
    sees_images: bool,
    is_chat: bool,
}

impl Found {
    /// Reads the answer to `/v1/models`. `None` when it is no list of models: something else listens there.
    pub(super) fn read(address: SocketAddr, expected: Option<Kind>, list: &Value) -> Option<Self> {
        let data = list.get("data")?.as_array().filter(|_| list["object"] == "list")?;
        let models: Vec<FoundModel> = data.iter().take(MAX_MODELS).filter_map(FoundModel::read).collect();
        let owner = data.iter().find_map(|model| model["owned_by"].as_str());
        let kind = owner.and_then(Kind::of_owner).or(expected);
        (!models.is_empty()).then_some(Self { address, kind, models })
    }

    /// Returns the ids of the models.
    pub(super) fn ids(&self) -> Vec<String> {
        self.models.iter().map(|model| model.id.clone()).collect()
    }

    /// Tells whether the window of a model is not known.
    pub(super) fn lacks_window(&self) -> bool {
        self.models.iter().any(|model| model.window.is_none())
    }

    /// Reads Ollama's answer to `/api/show`.
    pub(super) fn read_ollama(&mut self, id: &str, shown: &Value) {
        let Some(model) = self.models.iter_mut().find(|model| model.id == id) else { return };
        let facts = shown["model_info"].as_object().into_iter().flatten();
        model.trained_window =
            facts.filter(|(name, _)| name.ends_with(".context_length")).find_map(|(_, tokens)| tokens.as_u64());
        // `num_ctx 8192`: what the model file says that it is to be served with.
        let lines = shown["parameters"].as_str().unwrap_or_default().lines();
        let mut served = lines.filter_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
        model.window = served.next_back();
        if let Some(capabilities) = shown["capabilities"].as_array() {
            model.is_chat &= capabilities.iter().any(|name| name == "completion");
            model.sees_images = capabilities.iter().any(|name| name == "vision");
        }
    }

    /// Reads llama.cpp's answer to `/props`; it serves one model.
    pub(super) fn read_llama_props(&mut self, props: &Value) {
        let window = props.pointer("/default_generation_settings/n_ctx").and_then(Value::as_u64);
        for model in &mut self.models {
            model.window = model.window.or(window);
            model.sees_images |= props.pointer("/modalities/vision") == Some(&Value::Bool(true));
        }
    }

    /// Reads LM Studio's answer to `/api/v0/models`.
    pub(super) fn read_lm_studio(&mut self, models: &Value) {
        for facts in models["data"].as_array().into_iter().flatten() {
            let Some(model) = self.models.iter_mut().find(|model| facts["id"] == model.id.as_str()) else { continue };
            model.window = facts["loaded_context_length"].as_u64();
            model.trained_window = facts["max_context_length"].as_u64();
            model.sees_images = facts["type"] == "vlm";
            model.is_chat &= facts["type"] != "embeddings";
        }
    }

    /// Drops models that do not chat.
    pub(super) fn drop_other_than_chat(&mut self) {
        self.models.retain(|model| model.is_chat);
    }

    /// Returns the server as a provider, in the plain dialect that all of them speak.
    pub(super) fn provider(&self) -> ProviderDef {
        ProviderDef {
            id: self.kind.map_or("local", Kind::provider).to_owned(),
            base_url: Some(format!("http://{}/v1", self.address)),
            api: Some(API_OPENAI_COMPLETIONS.to_owned()),
            compat: Some(json!({
                "supportsStore": false,
                "supportsDeveloperRole": false,
                "supportsReasoningEffort": false,
                "supportsMidConvoSystemMessages": false,
                "maxTokensField": "max_tokens",
            })),
            models: self.models.iter().map(FoundModel::define).collect(),
            is_keyless: true,
            ..ProviderDef::default()
        }
    }
}

impl FoundModel {
    fn read(model: &Value) -> Option<Self> {
        let id = model["id"].as_str().filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES)?;
        if model["object"] != "model" || id.contains(char::is_control) {
            return None;
        }
        let number = |place: &str| model.pointer(place).and_then(Value::as_u64).filter(|tokens| *tokens > 0);
        let lower = id.to_ascii_lowercase();
        Some(Self {
            id: id.to_owned(),
            window: number("/max_model_len").or_else(|| number("/meta/n_ctx")),
            trained_window: number("/meta/n_ctx_train"),
            sees_images: false,
            is_chat: !OTHER_THAN_CHAT.iter().any(|word| lower.contains(word)),
        })
    }

    fn define(&self) -> ModelDef {
        let window = self.window.or(self.trained_window).filter(|tokens| *tokens > 0).unwrap_or(DEFAULT_WINDOW);
        let input = if self.sees_images { &["text", "image"][..] } else { &["text"] };
        ModelDef {
            id: self.id.clone(),
            input: Some(input.iter().map(|kind| (*kind).to_owned()).collect()),
            context_window: Some(window),
            max_tokens: Some(MAX_RESPONSE.min((window / 2).max(1))),
            ..ModelDef::default()
        }
    }
}
