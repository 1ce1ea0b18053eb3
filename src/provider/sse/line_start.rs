//! The beginning of a line whose end has not come yet.

/// A piece of fewer bytes is looked through one by one.
pub(super) const SMALL_PIECE: usize = 16;
/// Least room that is made, in bytes: a short event.
const LEAST_ROOM: usize = 256;
/// Room that is kept from line to line, in bytes: most events fit.
const KEPT_ROOM: usize = 64 * 1024;

/// Tells whether a byte ends a line.
pub(super) fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// The beginning of a line.
///
/// A body may come byte by byte, and then this is most of the work. So the room for what follows is there beforehand, and
/// how far it may be filled without another look at limits is known: a byte costs one count.
#[derive(Default)]
pub(super) struct LineStart {
    /// The bytes, and room behind them.
    room: Vec<u8>,
    /// How much of the room is filled.
    length: usize,
    /// How far small pieces may fill it; 0 for a line without a beginning.
    open: usize,
}

impl LineStart {
    /// Tells whether nothing came of the line.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns how many bytes came.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.room[..self.length]
    }

    /// Adds a small piece to a line that has begun. Returns whether it did: it does not where the piece may end the line.
    #[inline]
    pub(super) fn add_small(&mut self, piece: &[u8]) -> bool {
        let end = self.length + piece.len();
        if end > self.open || piece.len() >= SMALL_PIECE {
            return false;
        }
        for (slot, byte) in self.room[self.length..end].iter_mut().zip(piece) {
            // No line end is above CR, and what else is below is rare. What was filled in vain does not count.
            if *byte <= b'\r' {
                return false;
            }
            *slot = *byte;
        }
        self.length = end;
        true
    }

    /// Adds a piece. After it, small ones may fill the line up to `limit` bytes.
    pub(super) fn add(&mut self, piece: &[u8], limit: usize) {
        let end = self.length + piece.len();
        if end > self.room.len() {
            let room = end.next_power_of_two().max(LEAST_ROOM);
            self.room.resize(room.min(limit.max(end)), 0);
        }
        self.room[self.length..end].copy_from_slice(piece);
        self.length = end;
        self.open = if end == 0 { 0 } else { self.room.len().min(limit) };
    }

    /// Begins a new line.
    pub(super) fn clear(&mut self) {
        (self.length, self.open) = (0, 0);
        if self.room.len() > KEPT_ROOM {
            self.room.truncate(KEPT_ROOM);
            self.room.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(bytes: &[u8], limit: usize) -> LineStart {
        let mut start = LineStart::default();
        start.add(bytes, limit);
        start
    }

    #[test]
    fn small_pieces_go_in_only_behind_a_beginning_and_up_to_the_limit() {
        assert!(!LineStart::default().add_small(b"a"));
        let mut start = begun(b"ab", 4);
        assert!(start.add_small(b"c"));
        assert!(!start.add_small(b"de"));
        assert!(start.add_small(b"d"));
        assert!(!start.add_small(b"e"));
        assert_eq!(start.bytes(), b"abcd");
        start.clear();
        assert!(!start.add_small(b"a"));
        assert!(start.is_empty());
    }

    #[test]
    fn what_may_end_the_line_is_not_taken() {
        for piece in [b"\n".as_slice(), b"a\n", b"\r", b"a\rb", &[b'a'; SMALL_PIECE]] {
            let mut start = begun(b"ab", 1000);
            start.room.resize(1000, 0);
            start.open = 1000;
            assert!(!start.add_small(piece));
            assert_eq!(start.bytes(), b"ab");
        }
    }

    #[test]
    fn room_is_bounded_by_the_limit_and_given_back() {
        let limit = KEPT_ROOM + 1000;
        let mut start = begun(&[b'a'; KEPT_ROOM], limit);
        start.add(b"b", limit);
        assert_eq!((start.room.len(), start.len()), (limit, KEPT_ROOM + 1));
        start.clear();
        assert_eq!(start.room.capacity(), KEPT_ROOM);
    }
}
