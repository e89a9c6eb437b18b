//! Parses an expression.

use super::{DEPTH_MAX, ExpressionError, FUNCTIONS, LENGTH_MAX, Node, Operator, Result, Value};

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(i64),
    Decimal(f64),
    Text(String),
    /// A word; `:word` and a path are always parameters.
    Word(String, bool),
    Sign(&'static str),
    End,
}

const SIGNS: &[&str] =
    &["||", "<>", "!=", "<=", ">=", "==", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ","];

/// The binary operators, by precedence.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("OR", Operator::Or)],
    &[("AND", Operator::And)],
    &[
        ("=", Operator::Equal),
        ("==", Operator::Equal),
        ("<>", Operator::Unequal),
        ("!=", Operator::Unequal),
        ("<", Operator::Less),
        ("<=", Operator::LessOrEqual),
        (">", Operator::Greater),
        (">=", Operator::GreaterOrEqual),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract), ("||", Operator::Concat)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Remainder)],
];

/// The level of comparisons, which cannot be chained, and whose operands may be negated.
const COMPARE: usize = 2;

pub(super) fn parse(text: &str) -> Result<Node> {
    if text.len() > LENGTH_MAX {
        let problem = format!("it is longer than {LENGTH_MAX} bytes");
        return Err(ExpressionError::Syntax { at: 1, problem });
    }
    let mut parser = Parser { tokens: lex(text)?, next: 0, depth: 0 };
    let node = parser.level(0)?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

fn lex(text: &str) -> Result<Vec<(Token, usize)>> {
    let wrong = |at: usize, problem: String| Err(ExpressionError::Syntax { at: at + 1, problem });
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let (c, start) = (characters[at], at);
        let word = |from: usize| {
            let fits = |c: &&char| c.is_ascii_alphanumeric() || **c == '_';
            characters[from..].iter().take_while(fits).collect::<String>()
        };
        if c.is_whitespace() {
            at += 1;
        } else if c.is_ascii_digit() {
            let digits = word(at);
            at += digits.len();
            if characters.get(at) == Some(&'.') {
                let fraction = word(at + 1);
                at += 1 + fraction.len();
                match format!("{digits}.{fraction}").parse::<f64>() {
                    Ok(number) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => {
                        tokens.push((Token::Decimal(number), start));
                    }
                    _ => return wrong(start, format!("{digits}.{fraction} is no number")),
                }
                continue;
            }
            match digits.parse() {
                Ok(number) => tokens.push((Token::Number(number), start)),
                Err(_) => return wrong(start, format!("{digits} is no whole number of 64 bits")),
            }
        } else if c.is_ascii_alphabetic() || c == '_' {
            let mut path = word(at);
            at += path.len();
            let is_path = matches!(characters.get(at), Some('.' | '['));
            loop {
                let (name, length) = match characters.get(at) {
                    Some('.') => {
                        let name = word(at + 1);
                        let length = 1 + name.len();
                        (name, length)
                    }
                    Some('[') => match characters[at..].iter().position(|c| *c == ']') {
                        None => return wrong(at, "] is missing".into()),
                        Some(end) => {
                            let inside: String = characters[at + 1..at + end].iter().collect();
                            (inside.trim_matches('\'').to_owned(), end + 1)
                        }
                    },
                    _ => break,
                };
                if name.is_empty() {
                    return wrong(at, "a name is missing in the path".into());
                }
                path = format!("{path}.{name}");
                at += length;
            }
            tokens.push((Token::Word(path, is_path), start));
        } else if c == ':' {
            let word = word(at + 1);
            if word.is_empty() {
                return wrong(start, "a colon needs the name of a parameter behind it".into());
            }
            at += 1 + word.len();
            tokens.push((Token::Word(word, true), start));
        } else if c == '\'' {
            let mut content = String::new();
            at += 1;
            loop {
                let Some(c) = characters.get(at) else {
                    return wrong(start, "the text has no end: ' is missing".into());
                };
                // A quote in a string is doubled.
                let is_quote = *c == '\'';
                if is_quote && characters.get(at + 1) != Some(&'\'') {
                    break;
                }
                content.push(*c);
                at += 1 + usize::from(is_quote);
            }
            at += 1;
            tokens.push((Token::Text(content), start));
        } else {
            let rest: String = characters[at..].iter().take(2).collect();
            match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    at += sign.len();
                    tokens.push((Token::Sign(sign), start));
                }
                None => return wrong(start, format!("{c:?} has no meaning here")),
            }
        }
    }
    tokens.push((Token::End, characters.len()));
    Ok(tokens)
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)].0
    }

    fn unexpected(&self, expected: &str) -> ExpressionError {
        let (token, at) = &self.tokens[self.next.min(self.tokens.len() - 1)];
        let found = match token {
            Token::Number(number) => number.to_string(),
            Token::Decimal(number) => number.to_string(),
            Token::Text(text) => format!("'{text}'"),
            Token::Word(word, _) => word.clone(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => "the end".to_owned(),
        };
        let problem = format!("{found} stands where {expected} is expected");
        ExpressionError::Syntax { at: at + 1, problem }
    }

    /// Consumes a symbol or a word, in any case, if it comes next.
    fn eat(&mut self, what: &str) -> bool {
        let is = match self.peek() {
            Token::Sign(sign) => *sign == what,
            Token::Word(word, false) => word.eq_ignore_ascii_case(what),
            _ => false,
        };
        self.next += usize::from(is);
        is
    }

    fn expect(&mut self, what: &str) -> Result<()> {
        if self.eat(what) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let at = self.tokens[self.next.min(self.tokens.len() - 1)].1 + 1;
            let problem = format!("it is nested deeper than {DEPTH_MAX}");
            return Err(ExpressionError::Syntax { at, problem });
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Parses the operators of a level and those that bind tighter.
    fn level(&mut self, level: usize) -> Result<Node> {
        let Some(operators) = LEVELS.get(level) else { return self.sign() };
        if level == COMPARE && self.eat("NOT") {
            return Ok(Node::Not(Box::new(self.deeper(|parser| parser.level(COMPARE))?)));
        }
        let mut left = self.level(level + 1)?;
        // A long chain of operators is as deep as it is long.
        let mut length = 0;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.eat(sign)) {
            let right = self.level(level + 1)?;
            left = Node::Binary(*operator, Box::new(left), Box::new(right));
            length += 1;
            if level == COMPARE || length > LENGTH_MAX / 4 {
                break;
            }
        }
        if level == COMPARE && self.eat("IS") {
            let wanted = !self.eat("NOT");
            self.expect("NULL")?;
            left = Node::IsNull(Box::new(left), wanted);
        }
        Ok(left)
    }

    fn sign(&mut self) -> Result<Node> {
        if self.eat("-") {
            return Ok(Node::Negative(Box::new(self.deeper(Parser::sign)?)));
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Node> {
        let expected = "a value, a parameter or a function";
        if self.eat("(") {
            let inner = self.deeper(|parser| parser.level(0))?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.eat("CASE") {
            return self.case();
        }
        let node = match self.peek().clone() {
            Token::Number(number) => Node::Constant(Value::Integer(number)),
            Token::Decimal(number) => Node::Constant(Value::Decimal(number)),
            Token::Text(text) => Node::Constant(Value::Text(text)),
            Token::Word(name, true) => Node::Parameter(name),
            Token::Word(word, false) => return self.word(&word),
            Token::Sign(_) | Token::End => return Err(self.unexpected(expected)),
        };
        self.next += 1;
        Ok(node)
    }

    /// A constant, a function or a parameter.
    fn word(&mut self, word: &str) -> Result<Node> {
        const RESERVED: [&str; 9] =
            ["AND", "OR", "NOT", "IS", "WHEN", "THEN", "ELSE", "END", "CASE"];
        if RESERVED.iter().any(|reserved| word.eq_ignore_ascii_case(reserved)) {
            return Err(self.unexpected("a value, a parameter or a function"));
        }
        let at = self.next;
        self.next += 1;
        for (name, value) in
            [("NULL", Value::Null), ("TRUE", Value::Bool(true)), ("FALSE", Value::Bool(false))]
        {
            if word.eq_ignore_ascii_case(name) {
                return Ok(Node::Constant(value));
            }
        }
        if !self.eat("(") {
            return Ok(Node::Parameter(word.to_owned()));
        }
        let known = FUNCTIONS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(word));
        let Some((name, function, least, most)) = known else {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
            let problem = format!("there is no function {word}; there are {}", names.join(", "));
            return Err(ExpressionError::Syntax { at: self.tokens[at].1 + 1, problem });
        };
        let mut arguments = Vec::new();
        if !self.eat(")") {
            loop {
                arguments.push(self.deeper(|parser| parser.level(0))?);
                if self.eat(")") {
                    break;
                }
                self.expect(",")?;
            }
        }
        if !(*least..=*most).contains(&arguments.len()) {
            let count =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let problem = format!("{name} takes {count} arguments, not {}", arguments.len());
            return Err(ExpressionError::Syntax { at: self.tokens[at].1 + 1, problem });
        }
        Ok(Node::Call(*function, arguments))
    }

    fn case(&mut self) -> Result<Node> {
        let mut branches = Vec::new();
        while self.eat("WHEN") {
            let condition = self.deeper(|parser| parser.level(0))?;
            self.expect("THEN")?;
            branches.push((condition, self.deeper(|parser| parser.level(0))?));
        }
        if branches.is_empty() {
            return Err(self.unexpected("WHEN"));
        }
        let otherwise = if self.eat("ELSE") {
            self.deeper(|parser| parser.level(0))?
        } else {
            Node::Constant(Value::Null)
        };
        self.expect("END")?;
        Ok(Node::Case(branches, Box::new(otherwise)))
    }
}
