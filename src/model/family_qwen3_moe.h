#pragma once
// Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder and their later releases.
#include "model/family.h"

namespace fasteep {

extern const Family kQwen3MoeFamily;

}  // namespace fasteep
