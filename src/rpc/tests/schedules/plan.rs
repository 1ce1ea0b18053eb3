//! What happens in one case: what the models say, and what the clients do in which order.

use agentd_protocol::methods::View;
use proptest::prelude::*;

use super::groups::group;

/// Most clients of a case.
pub(super) const CLIENTS: usize = 4;

/// One case.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// What all rings may hold.
    pub(super) ring_bytes: usize,
    /// How long disk and preparations take, in milliseconds, by turns.
    pub(super) disk_ms: Vec<u8>,
    /// For each session the responses of its model; afterwards it answers with one word.
    pub(super) sessions: Vec<Vec<Response>>,
    /// What happens, and what passes before the next step.
    pub(super) steps: Vec<(Step, Pause)>,
    /// Whether a client that is never cut reads every event from the beginning.
    pub(super) has_witness: bool,
    /// Which views the clients read at the end.
    pub(super) last_views: [View; CLIENTS],
}

impl Plan {
    /// Tells whether the rings can be filled.
    pub(super) fn is_tight(&self) -> bool {
        self.ring_bytes <= super::MOST_SQUEEZED
    }
}

/// One response of a model.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) blocks: Vec<Block>,
    /// Whether blocks end only with the response, and grow by turns.
    pub(super) is_interleaved: bool,
    /// Events that come together.
    pub(super) batch: usize,
    pub(super) end: End,
}

/// A block of a response.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// The pause before each piece, in milliseconds.
    pub(super) pieces: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Text,
    Thinking,
    /// A call of the tool; each number is a pause before some output, in milliseconds.
    Call {
        output: Vec<u8>,
        fails: bool,
    },
}

/// How a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    /// A failure that is tried again.
    Transient,
    Fatal,
    /// It is cut off within a block, and tried again.
    Cut,
}

/// What passes after a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pause {
    Nothing,
    /// Others get so many turns.
    Turns(u8),
    /// Everything happens that can, and so many milliseconds pass.
    Millis(u16),
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A client connects anew by a pipe that holds so many bytes; its old connection breaks, whatever is in it.
    Connect {
        client: usize,
        pipe: usize,
        is_lsp: bool,
    },
    /// A client that cannot speak connects anew.
    Reach {
        client: usize,
    },
    /// A connection breaks, or the client only says that it will send no more.
    Cut {
        client: usize,
        is_half: bool,
    },
    /// A client attaches to a session.
    Attach {
        client: usize,
        session: usize,
        view: View,
        since: Since,
        history: Option<bool>,
    },
    Detach {
        client: usize,
        session: usize,
    },
    Say {
        client: usize,
        session: usize,
        what: Say,
    },
    /// So many bytes of what a client has to say leave it.
    Write {
        client: usize,
        bytes: usize,
    },
    /// A client reads at most so many bytes.
    Read {
        client: usize,
        bytes: usize,
    },
    /// Another session fills the rings.
    Squeeze,
    /// It fills them until they have forgotten the event that comes next, in a view, for a client.
    Forget {
        client: usize,
        session: usize,
        view: View,
    },
}

/// From where a client attaches.
#[derive(Clone, Copy, Debug)]
pub(super) enum Since {
    Nothing,
    Last,
    /// A cursor that it had earlier.
    Earlier(usize),
    Future,
    ForeignEpoch,
}

/// What a client asks of a session.
#[derive(Clone, Copy, Debug)]
pub(super) enum Say {
    Prompt,
    PromptToSteer,
    PromptToFollow,
    /// A prompt of which a few fill a snapshot.
    LongPrompt,
    Steer,
    FollowUp,
    Abort,
    ClearQueue,
    Name,
    RetrySetting,
    State,
    Entries,
    /// As much as one answer takes.
    AllEntries,
}

pub(super) fn view() -> impl Strategy<Value = View> {
    prop_oneof![3 => Just(View::Full), 3 => Just(View::Coalesced), 2 => Just(View::Entries), 1 => Just(View::Status)]
}

fn millis() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0_u8), 2 => 1_u8..12, 1 => 12_u8..120]
}

fn kind() -> impl Strategy<Value = Kind> {
    let output = proptest::collection::vec(millis(), 0..4);
    prop_oneof![
        4 => Just(Kind::Text),
        2 => Just(Kind::Thinking),
        2 => (output, proptest::bool::weighted(0.2)).prop_map(|(output, fails)| Kind::Call { output, fails }),
    ]
}

fn response() -> impl Strategy<Value = Response> {
    let block = (kind(), proptest::collection::vec(millis(), 0..7)).prop_map(|(kind, pieces)| Block { kind, pieces });
    let end = prop_oneof![
        9 => Just(End::Complete),
        1 => Just(End::Transient),
        1 => Just(End::Fatal),
        1 => Just(End::Cut),
    ];
    (proptest::collection::vec(block, 0..4), any::<bool>(), 1_usize..5, end)
        .prop_map(|(blocks, is_interleaved, batch, end)| Response { blocks, is_interleaved, batch, end })
}

fn since() -> impl Strategy<Value = Since> {
    prop_oneof![
        8 => Just(Since::Last),
        4 => (0_usize..6).prop_map(Since::Earlier),
        2 => Just(Since::Nothing),
        1 => Just(Since::Future),
        1 => Just(Since::ForeignEpoch),
    ]
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        8 => Just(Say::Prompt),
        1 => Just(Say::PromptToSteer),
        1 => Just(Say::PromptToFollow),
        1 => Just(Say::LongPrompt),
        2 => Just(Say::Steer),
        1 => Just(Say::FollowUp),
        2 => Just(Say::Abort),
        1 => Just(Say::ClearQueue),
        1 => Just(Say::Name),
        1 => Just(Say::RetrySetting),
        2 => Just(Say::State),
        1 => Just(Say::Entries),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (client, session) = (0..CLIENTS, 0_usize..2);
    let pipe = prop_oneof![2 => 1_usize..300, 1 => Just(4096_usize), 2 => Just(1 << 16)];
    let bytes = prop_oneof![2 => 1_usize..700, 3 => Just(1_usize << 20)];
    prop_oneof![
        3 => (client.clone(), pipe, proptest::bool::weighted(0.2))
            .prop_map(|(client, pipe, is_lsp)| Step::Connect { client, pipe, is_lsp }),
        1 => (client.clone(), proptest::bool::weighted(0.3)).prop_map(|(client, is_half)| Step::Cut { client, is_half }),
        7 => (client.clone(), session.clone(), view(), since(), proptest::option::weighted(0.1, any::<bool>()))
            .prop_map(|(client, session, view, since, history)| Step::Attach { client, session, view, since, history }),
        1 => (client.clone(), session.clone()).prop_map(|(client, session)| Step::Detach { client, session }),
        6 => (client.clone(), session, say()).prop_map(|(client, session, what)| Step::Say { client, session, what }),
        6 => (client.clone(), bytes.clone()).prop_map(|(client, bytes)| Step::Write { client, bytes }),
        8 => (client, bytes).prop_map(|(client, bytes)| Step::Read { client, bytes }),
        1 => Just(Step::Squeeze),
    ]
}

fn pause() -> impl Strategy<Value = Pause> {
    prop_oneof![
        3 => Just(Pause::Nothing),
        2 => (1_u8..6).prop_map(Pause::Turns),
        5 => (1_u16..20).prop_map(Pause::Millis),
        1 => (20_u16..300).prop_map(Pause::Millis),
        1 => Just(Pause::Millis(31_000)),
    ]
}

/// Makes cases.
pub(super) fn plans() -> impl Strategy<Value = Plan> {
    let responses = proptest::collection::vec(response(), 1..8);
    let steps = prop_oneof![8 => (step(), pause()).prop_map(|step| vec![step]), 1 => group()];
    let ring_bytes = prop_oneof![2 => 300_usize..4000, 1 => 4000_usize..40_000, 2 => Just(usize::MAX / 2)];
    (
        ring_bytes,
        proptest::collection::vec(0_u8..6, 1..4),
        proptest::collection::vec(responses, 1..3),
        proptest::collection::vec(steps, 6..21),
        any::<bool>(),
        [view(), view(), view(), view()],
    )
        .prop_map(|(ring_bytes, disk_ms, sessions, steps, has_witness, last_views)| Plan {
            ring_bytes,
            disk_ms,
            sessions,
            steps: steps.into_iter().flatten().collect(),
            has_witness,
            last_views,
        })
}
