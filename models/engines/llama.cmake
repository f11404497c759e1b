# Given to llama.cpp's build as CMAKE_PROJECT_llama.cpp_INCLUDE: leaves out the helpers of its server and
# its command line tools. llama-cpp-python forces LLAMA_BUILD_COMMON on, so the flag alone does nothing.
set(LLAMA_BUILD_COMMON OFF)
