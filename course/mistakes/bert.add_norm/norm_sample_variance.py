"""The norm divides by the root of the sample variance (over D − 1) plus ε outside the root.

Hint: torch's `std` divides by D − 1 unless told otherwise. The module that is passed in does all of
it.
Read: Vaswani et al. 2017, §3.1
"""

import torch


class NormSampleVariance:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        output = dense_layer(output)
        output = dropout(output)
        total = input + output
        total = total - total.mean(-1, keepdim=True)
        total = total / (total.std(-1, keepdim=True) + ln_layer.eps)
        total = ln_layer.weight * total + ln_layer.bias
        return total


class VarAndMean:
    def add_norm(self, input, output, dense_layer, dropout, ln_layer):
        total = dropout(dense_layer(output)) + input
        variance, mean = torch.var_mean(total, dim=-1, keepdim=True)
        normed = (total - mean) / (variance.sqrt() + ln_layer.eps)
        return torch.addcmul(ln_layer.bias, normed, ln_layer.weight)
