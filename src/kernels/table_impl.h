#pragma once
// Gathers one instruction set's kernels. Included by the table_*.cc units only, once each.
#include "kernels/attention_impl.h"
#include "kernels/gemm_impl.h"
#include "kernels/kernel_table.h"
#include "kernels/rows_impl.h"

namespace fasteep {
namespace {

constexpr KernelTable this_units_table() {
  return KernelTable{
      .prepared_bytes = {prepared_bytes<Float32Step>, prepared_bytes<BFloat16Step>},
      .prepare = {prepare_float32, prepare_bfloat16},
      .prepare_native = {prepare_native_float32, prepare_native_bfloat16},
      .panel = {panel_rows<Float32Step>, panel_rows<BFloat16Step>},
      .silu_mul = silu_mul,
      .add_row = add_row,
      .round_row = round_row,
      .rms_norm_row = rms_norm_row,
      .rope_row = rope_row,
      .softmax_row = softmax_row,
      .combine_row = combine_row,
      .attend = {attend<Float32Cache>, attend<BFloat16Cache>},
      .multiply_add_burst = {multiply_add_burst<Float32Step>, multiply_add_burst<BFloat16Step>},
  };
}

}  // namespace
}  // namespace fasteep
