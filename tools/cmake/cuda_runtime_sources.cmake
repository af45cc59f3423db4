# Host code of the CUDA device: built with the toolkit's header, and for the tests with that of tests/support/cuda_host.
set(parbuckle_cuda_runtime_sources
  ${CMAKE_SOURCE_DIR}/kernels/runtime/cuda/cuda_device.cpp ${CMAKE_SOURCE_DIR}/kernels/runtime/cuda/cuda_stream.cpp
  ${CMAKE_SOURCE_DIR}/kernels/runtime/cuda/handle.cpp)
