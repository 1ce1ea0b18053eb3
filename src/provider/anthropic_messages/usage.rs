//! Tokens of a response as they become known.

use agentd_protocol::message::Usage;

use super::events::RawUsage;
use crate::provider::cost::priced;
use crate::provider::spec::ModelSpec;
use crate::provider::stream::StreamEvent;

/// Tokens so far.
#[derive(Default)]
pub(super) struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cache_write_1h: u64,
    told: Option<Usage>,
}

impl Tokens {
    /// Takes a report; returns the event for it if anything changed. Reports are cumulative. What one leaves out, or
    /// gives as zero after a number (some servers fill in the rest that way), stays as it was.
    pub(super) fn take(&mut self, raw: &RawUsage, spec: &ModelSpec) -> Option<StreamEvent> {
        let by_life = raw.cache_creation.unwrap_or_default();
        let one_hour = by_life.ephemeral_1h_input_tokens.count();
        let parts = by_life.ephemeral_5m_input_tokens.count().unwrap_or(0).saturating_add(one_hour.unwrap_or(0));
        set(&mut self.input, raw.input_tokens.count());
        set(&mut self.output, raw.output_tokens.count());
        set(&mut self.cache_read, raw.cache_read_input_tokens.count());
        set(&mut self.cache_write, raw.cache_creation_input_tokens.count().or(Some(parts)));
        set(&mut self.cache_write_1h, one_hour);
        let usage = Usage {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
            cache_write_1h: Some(self.cache_write_1h.min(self.cache_write)),
            ..Usage::default()
        };
        let usage = priced(usage, spec, None);
        (self.told.replace(usage) != Some(usage)).then_some(StreamEvent::Usage(usage))
    }
}

fn set(field: &mut u64, reported: Option<u64>) {
    if let Some(count) = reported.filter(|count| *count > 0) {
        *field = count;
    }
}
