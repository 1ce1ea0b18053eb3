//! The methods as jsonrpsee knows them: each registered with its typed parameters and result.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use agentd_protocol::methods::{Method, MethodInfo, REGISTRY, WithSeq};
use jsonrpsee::types::{ErrorObjectOwned, Params};
use jsonrpsee::{Extensions, MethodCallback, Methods, RpcModule};
use serde_json::value::RawValue;

use super::call::{Call, CallState};
use super::error_map::{Failure, parse_params};
use super::handlers::{approvals, attach, config, daemon, keys, models, read, rules, run, sessions, settings, trust};
use super::server::Core;

/// All methods.
pub(super) struct MethodTable {
    methods: Methods,
    infos: HashMap<&'static str, &'static MethodInfo>,
}

impl MethodTable {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let mut registration = Registration(RpcModule::new(core));
        register_all(&mut registration);
        Self { methods: registration.0.into(), infos: REGISTRY.iter().map(|info| (info.name, info)).collect() }
    }

    /// Returns a method's registration.
    pub(super) fn find(&self, name: &str) -> Option<(&MethodCallback, &'static MethodInfo)> {
        Some((self.methods.method(name)?, self.infos.get(name).copied()?))
    }
}

fn register_all(registration: &mut Registration) {
    daemon::register(registration);
    models::register(registration);
    sessions::register(registration);
    attach::register(registration);
    approvals::register(registration);
    trust::register(registration);
    rules::register(registration);
    run::register(registration);
    read::register(registration);
    settings::register(registration);
    config::register(registration);
    keys::register(registration);
}

/// Registers handlers.
pub(super) struct Registration(RpcModule<Arc<Core>>);

impl Registration {
    /// Registers a method whose result is sent as it is.
    pub(super) fn plain<M, F, Fut>(&mut self, _method: M, handler: F)
    where
        M: Method,
        F: Fn(Arc<Call>, M::Params) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Failure>> + Send + 'static,
    {
        self.register(M::NAME, move |params: Params<'static>, call: Call| {
            let handler = handler.clone();
            async move { Ok(Arc::new(handler(Arc::new(call), parsed(&params)?).await?)) }
        });
    }

    /// Registers a method whose result is sent with the cursor that it reflects.
    pub(super) fn session<M, F, Fut>(&mut self, _method: M, handler: F)
    where
        M: Method,
        F: Fn(Arc<Call>, M::Params) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<M::Result, Failure>> + Send + 'static,
    {
        self.register(M::NAME, move |params: Params<'static>, call: Call| {
            let handler = handler.clone();
            async move {
                let call = Arc::new(call);
                let result = handler(call.clone(), parsed(&params)?).await?;
                Ok(Arc::new(WithSeq { result, seq: call.reflected() }))
            }
        });
    }

    fn register<T, F, Fut>(&mut self, name: &'static str, handler: F)
    where
        T: serde::Serialize + Send + Sync + 'static,
        F: Fn(Params<'static>, Call) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Arc<T>, Failure>> + Send + 'static,
    {
        self.0
            .register_async_method(name, move |params, core: Arc<Arc<Core>>, extensions: Extensions| {
                let state = extensions.get::<Arc<CallState>>().cloned().expect("the dispatcher puts it in");
                let answer = handler(params, Call { core: Arc::clone(&core), state });
                async move { answer.await.map_err(ErrorObjectOwned::from) }
            })
            .expect("each method is registered once");
    }
}

fn parsed<P: serde::de::DeserializeOwned>(params: &Params<'static>) -> Result<P, Failure> {
    let text: &RawValue = params
        .parse()
        .map_err(|error| Failure::new(agentd_protocol::error_code::ErrorKind::Internal, error.message()))?;
    parse_params(text.get())
}
