# What every room and every test shares: warnings, sanitizers, and two helpers.
add_library(parbuckle_options INTERFACE)
set(parbuckle_warnings
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wnon-virtual-dtor
  -Woverloaded-virtual -Wdouble-promotion -Wformat=2 -Wimplicit-fallthrough
  -Wcast-align -Wundef -Wno-missing-field-initializers  # designated initialisers leave defaults on purpose
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond> $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-branches>
  $<$<CXX_COMPILER_ID:GNU>:-Wlogical-op> $<$<CXX_COMPILER_ID:GNU>:-Wuseless-cast>
  $<$<BOOL:${PARBUCKLE_WERROR}>:-Werror>)
set(parbuckle_code -march=${PARBUCKLE_BASELINE} -mtune=generic -ffp-contract=off -fvisibility=hidden)
# nvcc has flags of its own (cuda_toolkit.cmake).
target_compile_options(parbuckle_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${parbuckle_code};${parbuckle_warnings}>")
if(PARBUCKLE_SANITIZE)
  target_compile_options(parbuckle_options INTERFACE
    -fsanitize=${PARBUCKLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(parbuckle_options INTERFACE -fsanitize=${PARBUCKLE_SANITIZE})
  target_compile_options(parbuckle_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
if(PARBUCKLE_FUZZ)  # coverage counters in every room that a target reaches
  target_compile_options(parbuckle_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(parbuckle_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# parbuckle_room(NAME): one static library; sources are added by the room's subfolders.
function(parbuckle_room name)
  add_library(${name} STATIC)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/engine/include>)
  target_link_libraries(${name} PUBLIC $<BUILD_INTERFACE:parbuckle_options>)
endfunction()

# parbuckle_test(NAME a.b.c SOURCES ... ROOMS ... LABELS ...): one GoogleTest binary, one ctest entry.
function(parbuckle_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;ROOMS;LABELS" ${ARGN})
  string(REPLACE "." "_" target ${T_NAME})
  add_executable(${target} ${T_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${target} PRIVATE PARBUCKLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE ${T_ROOMS} GTest::gtest_main)
  add_test(NAME ${T_NAME} COMMAND ${target})
  foreach(label ${T_LABELS})  # `ninja offload_tests` builds what ctest -L offload runs
    if(NOT TARGET ${label}_tests)
      add_custom_target(${label}_tests)
    endif()
    add_dependencies(${label}_tests ${target})
  endforeach()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  if(PARBUCKLE_SANITIZE)
    math(EXPR T_TIMEOUT "4 * ${T_TIMEOUT}")  # instrumented code is several times slower
  endif()
  # The command line waits passively too (tools/parbuckle/main.cpp): spinning threads starve each other on a busy machine.
  set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} ENVIRONMENT OMP_WAIT_POLICY=passive)
endfunction()
