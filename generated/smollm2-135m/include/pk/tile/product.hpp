// Dot products of activation rows and weight rows: pk::tile::product.
#pragma once

#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/tile/product_mma.hpp"
#else
#include "pk/tile/product_host.hpp"
#endif
