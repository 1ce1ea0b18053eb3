//! Steps that reach together what chance alone seldom reaches.

use agentd_protocol::methods::View;
use proptest::prelude::*;

use super::plan::{CLIENTS, Pause, Say, Since, Step, view};

/// More than any client has to say or any pipe holds.
const ALL: usize = 1 << 20;

/// Steps, and what passes after each.
type Steps = Vec<(Step, Pause)>;

/// Which client does it to which session.
#[derive(Clone, Copy, Debug)]
struct Who {
    client: usize,
    session: usize,
}

impl Who {
    fn attach(self, view: View, since: Since) -> Step {
        Step::Attach { client: self.client, session: self.session, view, since, history: None }
    }

    fn say(self, what: Say) -> Step {
        Step::Say { client: self.client, session: self.session, what }
    }

    fn write(self) -> Step {
        Step::Write { client: self.client, bytes: ALL }
    }

    fn read(self) -> Step {
        Step::Read { client: self.client, bytes: ALL }
    }

    /// Says it all at once, and reads nothing.
    fn burst(self, steps: impl IntoIterator<Item = Step>, pause: Pause) -> Steps {
        let reach = Step::Reach { client: self.client };
        [reach].into_iter().chain(steps).map(|step| (step, Pause::Nothing)).chain([(self.write(), pause)]).collect()
    }
}

/// Makes such steps.
pub(super) fn group() -> impl Strategy<Value = Steps> {
    prop_oneof![
        6 => richer(),
        6 => stopped(),
        6 => edge(),
        4 => between(),
        6 => behind(),
        1 => overtaking(),
    ]
}

/// Long enough for a response to begin, seldom for it to end.
fn into_response() -> impl Strategy<Value = Pause> {
    (3_u16..40).prop_map(Pause::Millis)
}

fn who() -> impl Strategy<Value = Who> {
    (0..CLIENTS, 0_usize..2).prop_map(|(client, session)| Who { client, session })
}

fn growing_view() -> impl Strategy<Value = View> {
    prop_oneof![Just(View::Full), Just(View::Coalesced)]
}

/// A little, while which a response goes on.
fn moment() -> impl Strategy<Value = Pause> {
    prop_oneof![2 => (1_u8..6).prop_map(Pause::Turns), 3 => (1_u16..30).prop_map(Pause::Millis)]
}

/// A view is changed for one that shows more, from a cursor of a moment in which something grows.
fn richer() -> impl Strategy<Value = Steps> {
    let poor = prop_oneof![Just(View::Entries), Just(View::Status)];
    let rich = prop_oneof![4 => growing_view(), 1 => Just(View::Entries)];
    (who(), poor, rich, any::<bool>(), into_response(), [moment(), moment()]).prop_map(
        |(who, poor, rich, has_news, first, [second, third])| {
            let mut steps = who.burst([who.say(Say::Prompt)], first);
            steps.extend(who.burst([who.attach(poor, Since::Nothing)], second));
            if has_news {
                steps.extend(who.burst([who.say(Say::Name)], third));
            }
            steps.push((who.read(), Pause::Nothing));
            steps.extend(who.burst([who.attach(rich, Since::Last)], third));
            steps.push((who.read(), Pause::Nothing));
            steps
        },
    )
}

/// A response is stopped, and somebody attaches, while something is being written.
fn stopped() -> impl Strategy<Value = Steps> {
    let what = prop_oneof![Just(Say::Name), Just(Say::Steer), Just(Say::RetrySetting)];
    (who(), growing_view(), what, into_response(), moment()).prop_map(|(who, view, what, first, second)| {
        let mut steps = who.burst([who.say(Say::Prompt)], first);
        let at_once = [who.say(what), who.say(Say::Abort), who.attach(view, Since::Nothing)];
        steps.extend(who.burst(at_once, second));
        steps.push((who.read(), Pause::Nothing));
        steps
    })
}

/// A client comes back when the ring has just forgotten what it needs.
fn edge() -> impl Strategy<Value = Steps> {
    (who(), view(), view(), into_response(), [moment(), moment()]).prop_map(
        |(who, before, after, first, [second, third])| {
            let mut steps = who.burst([who.attach(before, Since::Last), who.say(Say::Prompt)], first);
            steps.push((who.read(), second));
            let Who { client, session } = who;
            steps.push((Step::Forget { client, session, view: after }, Pause::Nothing));
            steps.extend(who.burst([who.attach(after, Since::Last)], third));
            steps.push((who.read(), Pause::Nothing));
            steps
        },
    )
}

/// Answers that stand between the events of a run.
fn between() -> impl Strategy<Value = Steps> {
    let what = prop_oneof![
        3 => Just(Say::State),
        2 => Just(Say::Name),
        2 => Just(Say::RetrySetting),
        1 => Just(Say::Steer),
        1 => Just(Say::Entries),
        1 => Just(Say::Prompt),
    ];
    let whats = proptest::collection::vec((what, moment()), 2..6);
    (who(), view(), whats, into_response()).prop_map(|(who, view, whats, pause)| {
        let mut steps = who.burst([who.attach(view, Since::Last), who.say(Say::Prompt)], pause);
        for (what, pause) in whats {
            steps.extend(who.burst([who.say(what)], pause));
            steps.push((who.read(), Pause::Nothing));
        }
        steps
    })
}

/// Answers about a session that runs, behind those of another session that waits for the disk.
fn behind() -> impl Strategy<Value = Steps> {
    let slow = prop_oneof![2 => Just(Say::PromptToFollow), 1 => Just(Say::Name)];
    let quick = prop_oneof![2 => Just(Say::State), 1 => Just(Say::Entries), 1 => Just(Say::Abort)];
    let rounds = proptest::collection::vec((slow, quick, moment()), 2..6);
    (who(), growing_view(), rounds, into_response()).prop_map(|(who, view, rounds, pause)| {
        let other = Who { session: who.session + 1, ..who };
        let mut steps = who.burst([who.attach(view, Since::Last), who.say(Say::Prompt)], pause);
        for (slow, quick, pause) in rounds {
            steps.extend(who.burst([other.say(slow), who.say(quick)], pause));
            steps.push((who.read(), Pause::Nothing));
        }
        steps
    })
}

/// A client that has stopped reading within large answers falls behind, attaches again, and reads on bit by bit.
fn overtaking() -> impl Strategy<Value = Steps> {
    let pauses = [moment(), moment(), moment(), moment()];
    (who(), growing_view(), growing_view(), pauses).prop_map(|(who, before, after, [first, second, third, fourth])| {
        let client = who.client;
        let mut steps = vec![(Step::Connect { client, pipe: 1 << 16, is_lsp: false }, Pause::Nothing)];
        steps.push((who.say(Say::LongPrompt), Pause::Nothing));
        steps.extend([(who.write(), Pause::Turns(5)), (who.write(), Pause::Turns(5)), (who.write(), first)]);
        steps.extend(who.burst([who.attach(before, Since::Last), who.say(Say::AllEntries)], second));
        steps.extend(who.burst([who.say(Say::Prompt)], third));
        steps.push((Step::Squeeze, Pause::Nothing));
        let whole = std::iter::repeat_n(who.say(Say::AllEntries), 3);
        steps.extend(who.burst(whole.chain([who.attach(after, Since::Nothing)]), fourth));
        steps.extend(who.burst([who.say(Say::Name)], fourth));
        steps.extend(std::iter::repeat_n((who.read(), Pause::Turns(3)), 12));
        steps
    })
}
