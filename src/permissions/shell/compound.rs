//! Compound commands: loops, branches, groups, functions, tests.

use super::line::{Assignment, Simple, Unreadable, Word, WordKind};
use super::list::Stop;
use super::reader::{Read, Reader, is_name};

/// Tests of files and texts in `[[ ]]`. Others reckon with what they are given, which may run commands.
const TESTS: &[&str] = &[
    "!", "&&", "||", "<", ">", "=", "==", "!=", "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-n", "-p", "-r",
    "-s", "-u", "-w", "-x", "-z", "-G", "-L", "-N", "-O", "-S", "-ef", "-nt", "-ot",
];

impl Reader<'_> {
    /// Reads one command of any kind, with its redirections.
    pub(super) fn one_command(&mut self) -> Read<()> {
        if self.looks_at("((") {
            self.arithmetic()?;
        } else if self.eat("(") {
            self.list_until(Stop::Parenthesis)?;
        } else {
            match self.upcoming().as_str() {
                "{" => self.after("{", |reader| reader.list_until(Stop::Words(&["}"])))?,
                "if" => self.after("if", Self::branches)?,
                "while" => self.after("while", Self::condition_and_body)?,
                "until" => self.after("until", Self::condition_and_body)?,
                "for" => self.after("for", Self::each)?,
                "select" => self.after("select", Self::each)?,
                "case" => self.after("case", Self::cases)?,
                "[[" => self.after("[[", Self::test)?,
                "function" => return self.after("function", Self::named_function),
                "coproc" => return self.after("coproc", Self::coprocess),
                _ => return self.simple(),
            }
        }
        self.redirects_of_compound()
    }

    fn after(&mut self, word: &str, read: impl FnOnce(&mut Self) -> Read<()>) -> Read<()> {
        self.skip(word.len());
        read(self)
    }

    fn redirects_of_compound(&mut self) -> Read<()> {
        let mut simple = Simple::default();
        self.skip_blanks();
        while self.redirect(&mut simple)? {
            self.skip_blanks();
        }
        if simple != Simple::default() {
            self.line.commands.push(simple);
        }
        Ok(())
    }

    fn condition_and_body(&mut self) -> Read<()> {
        self.list_until(Stop::Words(&["do"]))?;
        self.list_until(Stop::Words(&["done"]))
    }

    fn branches(&mut self) -> Read<()> {
        loop {
            self.list_until(Stop::Words(&["then"]))?;
            match self.list(Stop::Words(&["elif", "else", "fi"]))? {
                "elif" => {}
                "else" => return self.list_until(Stop::Words(&["fi"])),
                _ => return Ok(()),
            }
        }
    }

    /// `for` and `select`, after that word.
    fn each(&mut self) -> Read<()> {
        self.skip_blanks();
        if self.looks_at("((") {
            return Err(Unreadable("a loop reckons"));
        }
        let name = self.word()?;
        if !name.literal().is_some_and(is_name) {
            return Err(Unreadable("a loop has no variable"));
        }
        let value = Word { text: String::new(), kind: WordKind::Free };
        let assignments = vec![Assignment { name: name.text, value }];
        self.line.commands.push(Simple { assignments, ..Simple::default() });
        self.skip_lines()?;
        if self.eat_word("in") {
            self.words_of_loop()?;
        } else {
            self.eat(";");
        }
        self.skip_lines()?;
        if !self.eat_word("do") {
            return Err(Unreadable("a loop has no body"));
        }
        self.list_until(Stop::Words(&["done"]))
    }

    fn words_of_loop(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(';') => {
                    self.skip(1);
                    return Ok(());
                }
                Some('\n' | '#') => return Ok(()),
                _ => drop(self.word()?),
            }
        }
    }

    /// `case`, after that word.
    fn cases(&mut self) -> Read<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        if !self.eat_word("in") {
            return Err(Unreadable("a case has no branches"));
        }
        loop {
            self.skip_lines()?;
            if self.eat_word("esac") {
                return Ok(());
            }
            self.eat("(");
            self.patterns()?;
            self.list_until(Stop::Branch)?;
            let _ = self.eat(";;&") || self.eat(";;") || self.eat(";&");
        }
    }

    fn patterns(&mut self) -> Read<()> {
        loop {
            self.skip_blanks();
            self.word()?;
            self.skip_blanks();
            match self.next() {
                Some('|') => {}
                Some(')') => return Ok(()),
                _ => return Err(Unreadable("a case has a strange pattern")),
            }
        }
    }

    /// `[[`, after that word.
    fn test(&mut self) -> Read<()> {
        loop {
            self.skip_lines()?;
            if self.eat_word("]]") {
                return Ok(());
            }
            if self.eat("&&") || self.eat("||") || self.eat("(") || self.eat(")") {
                continue;
            }
            if self.looks_at("<(") || self.looks_at(">(") {
                return Err(Unreadable("a test reads from a command"));
            }
            if self.eat("<") || self.eat(">") {
                continue;
            }
            let word = self.word()?;
            if word.text.starts_with('-') && !TESTS.contains(&word.text.as_str()) {
                self.line.doubt("makes a test that may run commands");
            }
        }
    }

    /// `function`, after that word.
    fn named_function(&mut self) -> Read<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_blanks();
        if self.eat("(") {
            self.skip_blanks();
            if !self.eat(")") {
                return Err(Unreadable("a function takes no names"));
            }
        }
        self.function_body()
    }

    /// Reads the body of a function. Its commands may run whenever its name is called.
    pub(super) fn function_body(&mut self) -> Read<()> {
        self.line.doubt("defines a function");
        self.skip_lines()?;
        self.nested(Self::one_command)
    }

    fn coprocess(&mut self) -> Read<()> {
        self.line.doubt("starts a coprocess");
        self.skip_blanks();
        self.nested(Self::one_command)
    }
}
