// The worker: it holds the model and answers the page, so that typing never waits for a forward pass.
//
// A question is {number, kind, …}, an answer {number, …}. Of the questions of a kind only the newest
// counts: a long one stops when another of its kind has come.
"use strict";

let bert;
let heads; // {words, classes}: whether the model has them
const newest = {}; // kind → number of its newest question

const questions = {
  /** Take the weights; they come as base64, which only here is turned into numbers. */
  async load({ weights, table, config, has }) {
    const text = atob(weights);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i);
    bert = new Bert(unpack(bytes.buffer, table), config);
    heads = has;
    return {};
  },

  /** One pass: all tensors, the probabilities of the words at the places, those of the classes. */
  async run({ ids, real, off, places }) {
    const start = performance.now();
    const trace = bert.forward(ids, real, off);
    const words = heads.words && places.length ? wordsAt(trace, places) : [];
    const classes = heads.classes ? classesOf(trace) : null;
    return { trace, words, classes, milliseconds: performance.now() - start };
  },

  /** A number or more for each of many sentences, told one by one as they are found. */
  async each({ number, sentences, off }) {
    for (const [index, { ids, place, piece }] of sentences.entries()) {
      await new Promise(resolve => setTimeout(resolve)); // lets in newer questions
      if (newest.each !== number) return { stopped: true };
      const trace = bert.forward(ids, undefined, off);
      const found = place === undefined ? classesOf(trace) : wordsAt(trace, [place])[0];
      postMessage({ number, index, found: piece === undefined ? found : found[piece] });
    }
    return { done: true };
  },

  /** A row of a linear layer's weight, and its bias, for explanations. */
  async row({ name, row }) {
    const { weight, bias } = bert.module(name);
    const width = weight.shape[1];
    return { weight: weight.data.slice(row * width, (row + 1) * width), bias: bias.data[row] };
  },

  /** γ and β of a LayerNorm at a place. */
  async norm({ name, column }) {
    const { weight, bias } = bert.module(name);
    return { weight: weight.data[column], bias: bias.data[column] };
  },
};

function wordsAt(trace, places) {
  const { shape, data } = bert.maskedWords(trace.layers.at(-1).output, places);
  return places.map((_, m) => softmax(data.slice(m * shape[1], (m + 1) * shape[1])));
}

function classesOf(trace) {
  return softmax(bert.classify(trace.pooler.output).data);
}

if (typeof onmessage !== "undefined") { // not where the tests read this file
  onmessage = async ({ data }) => {
    newest[data.kind] = data.number;
    try {
      postMessage({ number: data.number, ...await questions[data.kind](data) });
    } catch (error) {
      postMessage({ number: data.number, failed: String(error) });
    }
  };
}
