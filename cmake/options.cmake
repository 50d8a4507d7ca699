# Build types and warnings. The presets in CMakePresets.json set these.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

option(FASTEEP_TESTS "Build the tests" ON)
option(FASTEEP_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(FASTEEP_DCHECKS "Check invariants that cost time (DCHECK)" ON)
set(FASTEEP_SANITIZE "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined or thread")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Werror -Wno-missing-field-initializers)
# Bits of results must not depend on the compiler's taste: no contraction of a*b+c behind our back.
add_compile_options(-ffp-contract=off)
if(FASTEEP_DCHECKS)
  add_compile_definitions(FASTEEP_DCHECKS)
endif()
if(FASTEEP_SANITIZE)
  add_compile_options(-fsanitize=${FASTEEP_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FASTEEP_SANITIZE})
  # GCC 12 warns falsely about uninitialised and out-of-bounds memory in sanitized code.
  add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-tsan)
endif()
include_directories(${CMAKE_SOURCE_DIR}/src)
include_directories(SYSTEM ${CLI11_INCLUDE_DIR})
add_compile_definitions(FASTEEP_VERSION="${PROJECT_VERSION}")
