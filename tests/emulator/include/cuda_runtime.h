// Takes the place of the CUDA toolkit's header: the language, and the functions of the runtime that a
// generated project uses, on one thread of the host.
#pragma once

#include "emulator/builtins.hpp"
#include "emulator/keywords.hpp"
#include "emulator/runtime.hpp"
#include "emulator/vector_types.hpp"
