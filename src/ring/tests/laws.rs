//! Whatever is pushed, evicted and subscribed to in whatever order: each subscriber reads every number that its view
//! shows once, in order, with the same content.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const VIEWS: [View; 4] = [View::Full, View::Coalesced, View::Entries, View::Status];

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<u8>),
    Flush,
    Subscribe { view: View, back: Seq },
    Pull { which: usize, bytes: usize, until: Option<Seq> },
    Unsubscribe(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => proptest::collection::vec(0u8..9, 0..6).prop_map(Step::Push),
        1 => Just(Step::Flush),
        2 => (proptest::sample::select(&VIEWS), 0u64..6).prop_map(|(view, back)| Step::Subscribe { view, back }),
        4 => (0usize..8, 0usize..1200, proptest::option::of(0u64..40))
            .prop_map(|(which, bytes, until)| Step::Pull { which, bytes, until }),
        1 => (0usize..8).prop_map(Step::Unsubscribe),
    ];
    proptest::collection::vec(step, 0..60)
}

/// The event that a small number stands for, and its effect on what a client has: place and text.
fn event(kind: u8, seq: Seq) -> Event {
    let text = format!("{seq}\n");
    match kind {
        0..=2 => delta(0, &text),
        3 => delta(1, &text),
        4 => output("x", &text),
        5 => output("y", &text),
        6 => message_end(&text),
        7 => settled(),
        _ => Event::TurnStart,
    }
}

/// Tells whether a view shows the event that a small number stands for.
fn is_shown(view: View, kind: u8) -> bool {
    match view {
        View::Full | View::Coalesced => true,
        View::Entries => kind > 5,
        View::Status => kind == 6 || kind == 7,
    }
}

struct Client {
    subscription: Subscription,
    /// Where it began, or where it went on after a snapshot.
    start: Seq,
    read: Vec<(Seq, String)>,
    done: bool,
}

impl Client {
    /// Reads a frame as the events it stands for.
    fn take(&mut self, frame: &Bytes, kinds: &[u8]) {
        let params = decode(frame);
        let (from, to) = (params.from.unwrap_or(params.seq), params.seq);
        let view = self.subscription.view();
        let mut rest = self.read.last().map_or(self.start, |(seq, _)| *seq) + 1..;
        let expected = rest.find(|seq| is_shown(view, kinds[*seq as usize - 1]));
        assert_eq!(Some(from), expected, "no gap, no repetition");
        assert!(from <= to);
        let key = |seq: Seq| if kinds[seq as usize - 1] <= 2 { 0 } else { kinds[seq as usize - 1] };
        assert!((from..=to).all(|seq| key(seq) == key(from)), "{from}-{to} is one place");
        assert!(from == to || key(from) <= 5, "only deltas are merged");
        match params.event {
            WireEvent::MessageUpdate {
                assistant_message_event: AssistantMessageEvent::TextDelta { delta, .. },
                ..
            }
            | WireEvent::ToolExecutionUpdate { delta, .. } => {
                let texts: Vec<&str> = delta.split_inclusive('\n').collect();
                assert_eq!(texts.len() as Seq, to - from + 1);
                self.read.extend((from..=to).zip(texts.into_iter().map(str::to_owned)));
            }
            _ => self.read.push((to, format!("{to}\n"))),
        }
    }
}

fn run(steps: Vec<Step>, limit: usize) {
    let budget = RingBudget::new(limit);
    let ring = Ring::new("s1".into(), "e1".into(), budget.clone());
    let mut kinds: Vec<u8> = Vec::new();
    let mut clients: Vec<Client> = Vec::new();
    let mut gone = Vec::new();
    let pull = |client: &mut Client, bytes, until, kinds: &[u8]| {
        let mut out = Vec::new();
        let result = client.subscription.pull(&mut out, bytes, until);
        for frame in &out {
            client.take(frame, kinds);
        }
        client.done = matches!(result, Pull::Lagged | Pull::Closed);
        result
    };
    for step in steps {
        match step {
            Step::Push(new) => {
                let events: Vec<Event> =
                    new.iter().enumerate().map(|(at, kind)| event(*kind, (kinds.len() + at + 1) as Seq)).collect();
                kinds.extend(&new);
                assert_eq!(ring.push(events), kinds.len() as Seq);
            }
            Step::Flush => ring.flush_merge(),
            Step::Subscribe { view, back } => {
                let since = ring.last_seq().saturating_sub(back);
                let start = if ring.can_replay(&cursor(since), view) { since } else { ring.last_seq() };
                let subscription = ring.subscribe(view, start, Wake::new());
                clients.push(Client { subscription, start, read: Vec::new(), done: false });
            }
            Step::Pull { which, bytes, until } => {
                let Some(client) = clients.get_mut(which).filter(|client| !client.done) else { continue };
                let before = client.subscription.position();
                let result = pull(client, bytes, until, &kinds);
                if let (Some(until), false) = (until.filter(|until| *until <= kinds.len() as Seq), client.done) {
                    let position = client.subscription.position();
                    assert!(
                        position >= until.min(before) && (bytes < 1200 || result != Pull::Empty || position >= until)
                    );
                }
            }
            Step::Unsubscribe(which) => {
                if which < clients.len() {
                    gone.push(clients.remove(which));
                }
            }
        }
        assert!(budget.used() <= limit);
    }
    ring.close();
    for mut client in clients.into_iter().chain(gone) {
        while !client.done {
            pull(&mut client, MUCH, None, &kinds);
        }
        for (seq, text) in &client.read {
            assert_eq!(*text, format!("{seq}\n"));
        }
        let lagged = client.subscription.position() < kinds.len() as Seq;
        assert!(!lagged || limit < MUCH, "nothing is lost while there is room");
    }
    drop(ring);
    assert_eq!(budget.used(), 0);
}

proptest! {
    #[test]
    fn every_subscriber_reads_the_same(steps in steps()) {
        run(steps, MUCH);
    }

    #[test]
    fn whoever_falls_out_is_told_so(steps in steps(), limit in 200usize..6000) {
        run(steps, limit);
    }
}
