// Text → word pieces, as tokenizer.py does it; the same ids as the Python's.
"use strict";

const LONGEST_WORD = 100; // characters; a longer word becomes [UNK]
const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
// What Python's str.split() takes for white space, without what BERT deletes as control characters
const SPACE = /[\t\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const SPLIT_BUT_DELETED = /[\x0b\x0c\x1c-\x1f\x85]/gu;
const DELETED = /[\ufffd\p{Cc}\p{Cf}\p{Co}\p{Cs}]/u;
const MARK = /\p{Mn}/u;
const PUNCTUATION = /[\p{P}$+<=>^`|~]/u;
const CJK = new RegExp("([\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{2a6df}" +
  "\\u{2a700}-\\u{2b81f}\\u{2b920}-\\u{2ceaf}\\u{2f800}-\\u{2fa1f}])", "gu");

class Tokenizer {
  /**
   * @param {Array} pieces the vocabulary, in the order of its ids
   * @param {boolean} lowerCase whether to lower-case and strip accents, as in Python
   * @param {Object} unicode letters: ranges "5c8-5c9 61d" of what came after Unicode 8, letters to
   *   BERT whatever they are; moved: characters of which BERT knows an older category
   */
  constructor(pieces, lowerCase, unicode) {
    this.pieces = pieces;
    this.lowerCase = lowerCase;
    this.vocab = new Map(pieces.map((piece, id) => [piece, id]));
    this.moved = unicode.moved;
    this.letters = unicode.letters.trim().split(/\s+/).map(range =>
      range.split("-").map(end => parseInt(end, 16)));
  }

  id(piece) {
    return this.vocab.get(piece);
  }

  /** Ids of a text, without [CLS] and [SEP]. */
  ids(text) {
    const words = text.replace(SPLIT_BUT_DELETED, "\0").split(SPACE).filter(word => word);
    return words.flatMap(word => this.splitRawWord(word));
  }

  /** Ids of a stretch of text without white space; [MASK] and the like stay whole. */
  splitRawWord(text) {
    const parts = text.split(/(\[(?:PAD|UNK|CLS|SEP|MASK)\])/u);
    return parts.flatMap(part => SPECIAL.includes(part) ? [this.id(part)] :
      this.splitAtPunctuation(this.normalise(part)).flatMap(word => this.wordpiece(word)));
  }

  /** A word without control characters, Chinese ones apart; small letters without accents. */
  normalise(text) {
    text = Array.from(text).filter(c => !this.is(DELETED, c)).join("");
    text = text.replace(CJK, " $1 ");
    if (!this.lowerCase) return text;
    text = Array.from(text.normalize("NFD")).filter(c => !this.is(MARK, c)).join("");
    return Array.from(text, c => c.toLowerCase()).join("");
  }

  /** Words and punctuation marks, each mark on its own. */
  splitAtPunctuation(text) {
    const spaced = Array.from(text, c => this.is(PUNCTUATION, c) ? ` ${c} ` : c).join("");
    return spaced.split(SPACE).filter(word => word);
  }

  /** Whether a character is of a category, as of Unicode 8 where it matters. */
  is(category, c) {
    if (c < "\x80") return category.test(c);
    const point = c.codePointAt(0);
    if (this.letters.some(([first, last = first]) => first <= point && point <= last)) return false;
    if (c in this.moved) return (this.moved[c] === "Mn" ? MARK : PUNCTUATION) === category;
    return category.test(c);
  }

  /** Greedy longest match first; pieces after the first begin with ##. */
  wordpiece(word) {
    const letters = Array.from(word);
    const ids = [];
    if (letters.length > LONGEST_WORD) return [this.id("[UNK]")];
    for (let start = 0; start < letters.length;) {
      let end = letters.length;
      const piece = () => (start ? "##" : "") + letters.slice(start, end).join("");
      while (end > start && !this.vocab.has(piece())) end--;
      if (end === start) return [this.id("[UNK]")];
      ids.push(this.id(piece()));
      start = end;
    }
    return ids;
  }
}
