# Sources that nvcc compiles for devices and, for the tests, g++ for the harness of tests/support/simt.
set(parbuckle_cuda_sources
  kernels/op_table.cu kernels/gemm/gemm_f32.cu kernels/ops/activation.cu kernels/ops/adamw.cu kernels/ops/attention.cu
  kernels/ops/context.cu kernels/ops/embedding.cu kernels/ops/head.cu kernels/ops/head_tiles.cu kernels/ops/linear.cu
  kernels/ops/norm.cu kernels/ops/pointwise.cu kernels/ops/reduce.cu kernels/ops/rope.cu)
list(TRANSFORM parbuckle_cuda_sources PREPEND ${CMAKE_SOURCE_DIR}/)
